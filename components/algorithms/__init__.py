"""Advantage estimators and losses as pure functions, one file each."""
