"""What was learned and what was lost: measures over predictions and task names."""
