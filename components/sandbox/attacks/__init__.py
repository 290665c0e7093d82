"""Programs that attack the sandbox, and judges that tell from the results whether it held."""
