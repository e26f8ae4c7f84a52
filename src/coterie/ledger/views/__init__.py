"""Read models for the API: paged and filtered SELECTs that give plain JSON values. Nothing here writes."""
