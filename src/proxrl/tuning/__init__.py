"""`proxrl tune`: searches for the best settings of a preset with Optuna (extra `tune`; no torch).

Modules in reading order: space (what is searched), trials (Optuna's storage, sampler and pruner),
search (the trials as runs of an executor), table (progress), figures and page, command.
"""
