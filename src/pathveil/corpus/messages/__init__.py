"""Reports in messages: HL7 version 2, FHIR and checklists, their versions, and the patients they name."""
