"""What a reader sees of finished runs: tables and figures, made from results alone."""
