"""The coding service: reports in over HTTP, HL7 or a folder, codes out to programs and to the people who decide."""
