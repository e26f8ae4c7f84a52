"""The driver of AWS: EC2 and EBS."""
