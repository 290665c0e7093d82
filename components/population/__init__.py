"""Several models trained together: how their returns mix and their weights meet, whom they play, how they are rated."""
