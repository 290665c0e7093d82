"""Environments, in one folder for each domain; `registry` names them."""
