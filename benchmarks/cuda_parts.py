def faults(report):
    pass
