"""Formulas that several packages compute with: nothing but numbers in and out."""
