"""`python -m components.training`: the process of one rank."""

from components.machine.gc_tuning import gc_paused

with gc_paused():
    from components.training import deepspeed_backend, worker_main

    deepspeed_backend.import_models()

worker_main.main()
