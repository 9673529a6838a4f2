"""Who a report is about: the record number by which a case goes, and all names and addresses that are masked."""

import pytest

from fhir_resources import KEY, LAB, PATIENT, PRESENTED, bundle, cases_of, report
from pathveil.corpus.messages.fhir import read_resource
from pathveil.serve.fhir import read_fhir


def test_names_and_addresses_that_are_written_in_one_are_masked():
    written = {"resourceType": "Patient", "id": "p1", "identifier": [{"value": "00466144"}],
               "name": [{"text": "Mrs. Candy McMuffin"}], "address": [{"text": "495 East Overshoot Drive, Delmar"}],
               "contact": [{"name": {"text": "Olha Kovalenkova"}}]}  # fmt: skip
    told = ("Patient, Mrs. McMuffin (McMuffin, Candy), daughter of Kovalenkova, 495 East Overshoot Drive, Delmar;\n"
            "495 East  Overshoot Drive. Carcinoma, not of Delmar.")  # fmt: skip
    (found,) = read_resource(bundle(written, LAB, report(conclusion=told)), key=KEY, registry=None)
    assert found.text == (
        "FINAL DIAGNOSIS\nPatient, Mrs. [patient] ([patient]), daughter of [patient], [address];\n"
        "[address]. Carcinoma, not of Delmar."
    )


@pytest.mark.parametrize("people", [(), (PATIENT,)])
def test_what_a_report_calls_its_patient_is_masked(people):
    subject = {"reference": "Patient/p1", "display": "Erika Mustermann, female, MRN 4711-0815"}
    given = report(subject=subject, conclusion="Erika Mustermann (47110815), a female patient: carcinoma.")
    (found,) = read_resource(bundle(*people, LAB, given), key=KEY, registry=None)
    assert found.text == "FINAL DIAGNOSIS\n[patient] ([number]), a female patient: carcinoma."
    (sent,) = read_fhir(bundle(*people, given))
    assert sent.text == found.text


def test_numbers_and_addresses_without_their_kind_are_masked():
    """An e-mail without its system, a phone with its extension, the number by which a report names its patient."""
    telecom = [{"value": "candy@zebra.example"}, {"system": "sms", "value": "tel:+1 518-555-0124 ext. 7"}]
    born = [{"url": "http://hl7.org/fhir/StructureDefinition/patient-mothersMaidenName", "valueString": "Everywoman"}]
    text = "candy@zebra.example, (518) 555-0124, mother Everywoman"
    someone = PATIENT | {"telecom": telecom, "extension": born}
    (found,) = read_resource(bundle(someone, LAB, report(conclusion=text)), key=KEY, registry=None)
    assert found.text == "FINAL DIAGNOSIS\n[address], ([number], mother [patient]"
    for subject in ({"identifier": {"value": "00466144"}}, {"reference": "https://x/Patient/00466144/_history/2"}):
        (found,) = read_resource(report(subject=subject, conclusion="MRN 466144"), key=KEY, registry="R")
        assert found.text == "FINAL DIAGNOSIS\nMRN [number]"


def test_a_case_goes_by_the_record_number_whatever_stands_before_it():
    """As in HL7: neither a visit's number nor one that was given up makes another case of a patient."""
    record = {"value": "00466144", "system": "urn:hospital"}
    others = [{"value": "V7", "type": {"coding": [{"code": "VN"}]}}, {"value": "9911", "use": "old"}, {"value": "K5"}]
    typed = record | {"type": {"coding": [{"code": "MR"}]}}
    given = ([record], [record, *others], [others[0], record], [others[1], record], [*others, typed])
    assert len(set(cases_of(*(PATIENT | {"identifier": numbers} for numbers in given)))) == 1
    by_name, without = cases_of(PATIENT | {"identifier": others[:1]}, PATIENT | {"identifier": []})
    assert by_name == without


def test_a_number_of_one_digit_again_and_again_is_a_number_and_a_placeholder_is_none():
    def found(*numbers: str, **changes):
        patient = PATIENT | {"identifier": [{"value": number} for number in numbers]} | changes
        (report,) = read_resource(bundle(patient, LAB, PRESENTED), key=KEY, registry=None)
        return report

    married = [{"family": "Otherwise", "given": ["Ann"]}]
    assert found("777").case_id == found("777", name=married).case_id != found("778").case_id
    assert found("000000").case_id == found("UNKNOWN").case_id == found().case_id
    placeholders = [found(*numbers).placeholder for numbers in (("777",), ("000000",), ("000000", "777"), ())]
    assert placeholders == [False, True, False, False]


def test_a_number_is_a_record_number_also_where_words_say_so():
    numbers = [{"value": "E4007", "type": {"text": "EPIC"}}, {"value": "00466144", "type": {"text": "MRN"}}]
    (found,) = read_resource(bundle(PATIENT | {"identifier": numbers}, LAB, PRESENTED), key=KEY, registry=None)
    (alone,) = read_resource(bundle(PATIENT | {"identifier": numbers[1:]}, LAB, PRESENTED), key=KEY, registry=None)
    assert found.case_id == alone.case_id


def test_a_name_of_very_many_words_takes_no_time():
    """Each word is looked for beside each other one."""
    name = {"family": "McMuffin", "given": ["Candy"] + [f"Given{number}" for number in range(20_000)]}
    crowd = PATIENT | {"name": [name, {"text": " ".join(name["given"])}]}
    (found,) = read_resource(bundle(crowd, LAB, report(conclusion="Candy McMuffin: polyp")), key=KEY, registry=None)
    assert found.text == "FINAL DIAGNOSIS\n[patient]: polyp"
