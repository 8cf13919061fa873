"""An A/B, or a whole ablation, of a server of the user's own: fresh processes, blocks, what they show."""
