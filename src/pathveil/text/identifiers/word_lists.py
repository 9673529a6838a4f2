"""Words of reports that are also names of people."""

# Names that are also words of reports, or bits of other names. Alone they are left, since masking them would blank
# "small bowel" or "Barrett" and give the name away by doing so; beside a title or the patient's other name they are
# masked like any.
WORDS = frozenset(
    "ann april arm art august barrett bell best bill black bone bowen bright broad brown burkitt bush case "
    "cell chance clear cord crohn cross cushing dark day del den der dos early east ewing field fine fish flat "
    "foot forest frank free gland glass gleason good grace graft grant grave graves gray green grey hall hand "
    "hard head heart high hill hodgkin hope house june kaposi king large las light little long los low lung "
    "major mark marsh may merkel mole moles neck north page paget park pat pearl pink pool ray red rich rob "
    "root rose san sharp short silver skin small south spring still stone strong summer sun tall temple true "
    "van von wall ward white will wilms winter wolf wood young".split()
)
# Words of every report that are names of people too. "patient" before one is no title: "from the patient. Gross: …".
TERMS = frozenset(
    "abdomen ankle anterior apex appendix arch axilla back base benign biopsy bladder block blocks blood body brain "
    "breast calf canal cancer cap central cervix cheek chest chin colon comment core crest cyst diagnosis duct ear "
    "elbow eye face fat final flank gall grade groin gross hair heel hip inner kidney knee left leg lesion lip lips "
    "liver lobe lower lymph margin marrow mass middle muscle nail needle nerve node nodes nose note ovary palm part "
    "pelvis penis polyp posterior prostate punch rectum rib right scalp section shave shin shoulder sinus site slide "
    "sole spleen stage stain stomach temporal testis thigh thorax tip tissue toe tongue tonsil trunk tumor tumour "
    "ulcer upper uterus vein vulva wedge wrist".split()
)
