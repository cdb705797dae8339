"""Networks: encoders (frozen or trained), visual prompts, linear heads and their EMA teacher."""
