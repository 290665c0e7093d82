"""`python -m components.training`: the process of one rank."""

from components.long_lived import long_lived

with long_lived():
    from components.training import worker

    worker.import_models()

worker.main()
