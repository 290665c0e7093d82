"""`python -m components.training`: the process of one rank."""

from components.long_lived import long_lived

with long_lived():
    from components.training import process, real_deepspeed

    real_deepspeed.import_models()

process.main()
