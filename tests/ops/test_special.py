"""The special functions: values known to 40 digits, limits and bad arguments; PyTorch's values where they agree."""

import math

import pytest

import cygrad

inf, nan = math.inf, math.nan

# name -> arguments and values, computed with mpmath
VALUES = {
    "erfcx": ([-5.5, -0.3, 0.002, 1.7, 40.0, 1000000.0], [27443409954929.71, 1.4537492328427655, 0.9977472356557772,
        0.2916632970753435, 0.014100335983377814, 5.641895835474742e-07]),
    "erfinv": ([1e-09, 0.3, -0.5, 0.75, 0.999, 0.9999999999999991], [8.86226925452758e-10, 0.2724627147267543,
        -0.4769362762044699, 0.8134198475976185, 2.3267537655135246, 5.686128441310391]),
    "ndtr": ([-37.5, -10.3, -1.1, 0.4, 5.5], [4.605353009581955e-308, 3.5230650789264124e-25, 0.13566606094638264,
        0.6554217416103242, 0.9999999810104375]),
    "log_ndtr": ([-300.0, -10.3, -0.9, 0.4, 7.6], [-45006.62273211866, -56.305295953074975, -1.6924928065613383,
        -0.42247637022777607, -1.48065374900482e-14]),
    "ndtri": ([1e-300, 1e-30, 1e-05, 0.2, 0.4, 0.6, 0.99], [-37.0470962993612, -11.464024688443615,
        -4.264890793922825, -0.8416212335729142, -0.2533471031357997, 0.2533471031357997, 2.3263478740408408]),
    "lgamma": ([-3.7, -0.5, 0.001, 1.3, 10.5, 100000.0], [-1.3797399049658245, 1.2655121234846454, 6.907178885383853,
        -0.10817480950786047, 13.940625219403763, 1051287.7089736569]),
    "digamma": ([-3.7, -0.2, 0.001, 0.9, 1.4616, 1.9, 9.5, 100000.0, -4.652281653688997, -56.79816220709416,
        -0.5030830082644554, -12.3], [-0.8450768588704194, 4.034991433293861, -1000.5755719318103, -0.7549269499470513,
        -3.110625123034165e-05, 0.35618416116405965, 2.1977378764029494, 11.512920464961896, 0.011807910892922642,
        -0.22366346908828197, 0.008939021469268997, 4.832199881811456]),
    "polygamma 1": ([-3.7, 0.001, 1.5, 9.5, 100000.0], [14.84242186412428, 1000001.6425331958, 0.9348022005446793,
        0.11099728846909904, 1.0000050000166667e-05]),
    "polygamma 2": ([-3.7, 0.001, 1.5, 9.5, 100000.0], [-68.89345468867354, -2000000002.3976321, -0.82879664423432,
        -0.012307845807709338, -1.00001000005e-10]),
    "polygamma 7": ([-1.2, 0.1, 1.5, 9.5, 100.0], [1968781260.0925806, 504000002365.19116, 200.21818559806496,
        0.00014633255734266892, 7.455359496158328e-12]),
    "i0": ([0.1, -3.5, 7.9, 8.5, 300.0], [1.0025015629340956, 7.3782034322254795, 389.406283282158, 683.1619269901156,
        4.475847367935052e+128]),
    "i0e": ([0.1, -3.5, 7.9, 8.5, 10000.0], [0.9071009257823011, 0.22280243801077917, 0.14436986414104191,
        0.13900184305484758, 0.003989472674604732]),
    "i1": ([0.1, -3.5, 7.9, 8.5, 300.0], [0.050062526047092694, -6.205834922258365, 363.8539440845084,
        641.6199025400667, 4.468381385036955e+128]),
    "i1e": ([0.1, -3.5, 7.9, 8.5, 10000.0], [0.045298446808809324, -0.18739997660305, 0.13489649943989376,
        0.13054935509459586, 0.003989273195983662]),
    "modified_bessel_k0": ([0.001, 0.6, 1.9, 2.1, 100.0], [7.023688800562382, 0.7775220919047293, 0.1288459792760475,
        0.10078374088996693, 4.656628229175902e-45]),
    "modified_bessel_k1": ([0.001, 0.6, 1.9, 2.1, 100.0], [999.9962381560856, 1.3028349397635022, 0.15966015303266762,
        0.12274641153350789, 4.6798537356369095e-45]),
    "scaled_modified_bessel_k0": ([0.001, 0.6, 2.1, 10000.0], [7.030716002378251, 1.4167376213785645,
        0.8230171525316621, 0.012532984717699286]),
    "scaled_modified_bessel_k1": ([0.001, 0.6, 2.1, 10000.0], [1000.9967345590684, 2.3739200375487135,
        1.0023680527405792, 0.012533611351270506]),
    "bessel_j0": ([0.3, 2.0, -20.0], [0.9776262465382961, 0.22389077914123567, 0.16702466434058316]),
    "bessel_j1": ([0.3, 2.0, -20.0], [0.148318816273104, 0.5767248077568734, -0.06683312417585005]),
    "bessel_y0": ([0.3, 2.0, 20.0], [-0.8072735778045195, 0.5103756726497451, 0.06264059680938383]),
    "bessel_y1": ([0.3, 2.0, 20.0], [-2.2931051383885293, -0.10703243154093754, -0.1655116143625213]),
    "spherical_bessel_j0": ([1e-06, 0.4, -9.0], [0.9999999999998334, 0.9735458557716262, 0.04579094280463962]),
    "entr": ([1e-300, 0.4, 1.7], [6.9077552789821376e-298, 0.366516292749662, -0.9020680268056896]),
    "exp2": ([-1000.5, 0.3, 9.7], [6.599170332783212e-302, 1.2311444133449163, 831.7464538687848]),
    "log2": ([1e-300, 0.7, 5.0], [-996.5784284662087, -0.5145731728297583, 2.321928094887362]),
    "log10": ([1e-300, 0.7, 5.0], [-300.0, -0.1549019599857432, 0.6989700043360189]),
}
VALUES_OF_TWO = {
    "zeta": ([(1.1, 0.5), (2.0, 3.0), (19.5, 77.0), (30.0, 0.25)], [12.103813495683747, 0.39493406684822646,
        7.655565392249657e-37, 1.152921504606847e+18]),
    "igamma": ([(0.3, 0.1), (2.5, 4.0), (50.0, 45.0), (300.0, 310.0), (19.5, 15.25), (955.125, 838.5),
        (99191.0, 98368.0), (223.5, 7.0)], [0.5459128495917965, 0.8437643724222776, 0.24680203440017026,
        0.7224887541718611, 0.16706654054756176, 4.2773030301344847e-05, 0.004404882847858267, 1.907674828739585e-244]),
    "igammac": ([(0.3, 0.1), (2.5, 4.0), (50.0, 45.0), (300.0, 310.0), (0.001, 0.5), (19.25, 19.5), (1571.0, 1768.5),
        (26939.0, 27527.5), (20.25, 218.5)], [0.4540871504082035, 0.15623562757772233, 0.7531979655998298,
        0.2775112458281389, 0.0005600666564707498, 0.44720724250603694, 8.074274935516679e-07, 0.00018416396896012323,
        5.924241628895143e-68]),
    "xlog1py": ([(3.0, 1e-10), (2.0, 4.0)], [2.99999999985e-10, 3.2188758248682006]),
    "logaddexp": ([(1.0, 2.0), (700.0, -3.0), (0.25, -0.5)], [2.313261687518223, 700.0, 0.6368710061149]),
    "logaddexp2": ([(1.0, 2.0), (0.25, -0.5)], [2.584962500721156, 0.9231977928189542]),
}
UNITS = 12      # of the last place, in double precision; a float is right to the last bit but for double rounding


def function(name):
    """The function of a key, and the arguments before the tensor."""
    name, *order = name.split()
    found = getattr(cygrad.special, name, None) or getattr(cygrad, name)
    return lambda *x: found(*map(int, order), *x)


def near(got, want, units):
    """Whether numbers of double precision agree to some units of the last place."""
    return all(abs(a - b) <= units * math.ulp(b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    x, want = VALUES[name]
    assert near(function(name)(cygrad.tensor(x, dtype=cygrad.float64)).tolist(), want, UNITS)


@pytest.mark.parametrize("name", VALUES_OF_TWO)
def test_values_of_two(name):
    pairs, want = VALUES_OF_TWO[name]
    a, b = (cygrad.tensor(x, dtype=cygrad.float64) for x in zip(*pairs, strict=True))
    assert near(function(name)(a, b).tolist(), want, UNITS)


@pytest.mark.parametrize("name", VALUES)
def test_floats_are_computed_in_double(name):
    x = cygrad.tensor(VALUES[name][0], dtype=cygrad.float32)
    single, double = (function(name)(t).double() for t in (x, x.double()))
    step = cygrad.nextafter(single.float(), cygrad.full_like(x, inf)).double() - single
    if name in ("entr", "spherical_bessel_j0"):     # formulas of several rounded operations
        step = 2 * step
    assert bool((((single - double).abs() <= 0.51 * step) | (double.float() == single.float())).all())


LIMITS = {
    "erfcx": ([0.0, inf, -inf, -30.0], [1.0, 0.0, inf, inf]),
    "erfinv": ([0.0, 1.0, -1.0, 1.5], [0.0, inf, -inf, nan]),
    "ndtr": ([-inf, 0.0, inf], [0.0, 0.5, 1.0]),
    "ndtri": ([0.0, 0.5, 1.0, -0.1, 1.1], [-inf, 0.0, inf, nan, nan]),
    "log_ndtr": ([-inf, inf, -1e10], [-inf, 0.0, -5e19]),
    "entr": ([-1.0, -inf, 0.0, 1.0, inf], [-inf, -inf, 0.0, 0.0, -inf]),
    "digamma": ([0.0, -0.0, -1.0, -inf, inf], [-inf, inf, nan, nan, inf]),
    "polygamma 1": ([0.0, inf, 1e30], [inf, 0.0, 1e-30]),
    "polygamma 2": ([0.0, inf], [-inf, nan]),       # PyTorch's value: the formula is 0 times infinity
    "lgamma": ([0.0, -1.0, inf, 1.0, 2.0], [inf, inf, inf, 0.0, 0.0]),
    "i0": ([0.0, inf, -inf], [1.0, nan, nan]),
    "i0e": ([0.0, inf], [1.0, 0.0]),
    "i1": ([0.0, inf, -inf], [0.0, nan, nan]),
    "i1e": ([0.0, inf], [0.0, 0.0]),
    "modified_bessel_k0": ([0.0, inf, -1.0], [inf, 0.0, nan]),
    "sinc": ([0.0, inf], [1.0, nan]),
    "logit": ([0.0, 1.0, 2.0, -1.0], [-inf, inf, nan, nan]),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    x, want = LIMITS[name]
    for dtype in (cygrad.float32, cygrad.float64):
        got = function(name)(cygrad.tensor([*x, nan], dtype=dtype)).tolist()
        assert got == pytest.approx([*want, nan], rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    ("name", "pairs", "want"),
    [
        ("xlogy", [(0, 0), (0, nan), (0, -1), (nan, 1), (2, 0)], [0, nan, 0, nan, -inf]),
        ("xlog1py", [(0, -1), (0, nan), (0, -2), (2, -1)], [0, nan, 0, -inf]),
        ("zeta", [(1, 2), (0.5, 1), (2, -1), (2.5, -1.5), (1e9, 2.0), (1, nan)], [inf, nan, inf, nan, 0, inf]),
        ("zeta", [(2, inf), (2, -inf), (inf, 2), (inf, 1), (inf, -2.5), (1e30, 2)], [nan, inf, nan, 1, inf, nan]),
        ("igamma", [(0, 0), (0, 1), (1, 0), (-1, 1), (inf, 1), (1, inf)], [nan, 1, 0, nan, 0, 1]),
        ("igammac", [(0, 0), (0, 1), (1, 0), (-1, 1), (inf, 1), (1, inf)], [nan, 0, 1, nan, 1, 0]),
        ("logaddexp", [(inf, inf), (-inf, -inf), (inf, -inf), (nan, 1)], [inf, -inf, inf, nan]),
        ("atan2", [(0.0, -0.0), (-0.0, -1.0), (inf, inf)], [math.pi, -math.pi, math.pi / 4]),
        ("hypot", [(1e300, 1e300), (inf, nan), (3, 4)], [1.4142135623730951e300, inf, 5]),
        ("copysign", [(1, -0.0), (-2, 3)], [-1, 2]),
        ("fmax", [(nan, 1), (1, nan), (nan, nan), (1, 2)], [1, 1, nan, 2]),
        ("fmin", [(nan, 1), (1, nan), (nan, nan), (1, 2)], [1, 1, nan, 1]),
        ("heaviside", [(-1, 5), (0, 5), (1, 5), (nan, 5)], [0, 5, 1, 0]),
    ],
)
def test_limits_of_two(name, pairs, want):
    a, b = (cygrad.tensor(x, dtype=cygrad.float64) for x in zip(*pairs, strict=True))
    assert function(name)(a, b).tolist() == pytest.approx(want, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", ["erfinv", "ndtr", "lgamma", "digamma", "i0", "exp2", "asin", "sinc", "logit"])
def test_integers_give_the_default_dtype(name):
    got = function(name)(cygrad.tensor([0, 1]))
    assert got.dtype is cygrad.float32
    assert got.tolist() == pytest.approx(function(name)(cygrad.tensor([0.0, 1.0])).tolist(), nan_ok=True)


@pytest.mark.parametrize("name", ["hypot", "nextafter", "logaddexp", "logaddexp2", "igamma", "frac"])
def test_integers_are_refused(name):
    x = cygrad.tensor([1, 2])
    with pytest.raises(NotImplementedError, match="Long"):
        function(name)(*((x,) if name == "frac" else (x, x)))


def test_sums_of_squares_do_not_vanish_in_float32():
    x = cygrad.tensor([1e-30, 3e38])
    assert cygrad.hypot(x, x).tolist() == pytest.approx([1.4142136e-30, inf])


def test_another_name_of_a_compiled_function_keeps_its_errors():
    with pytest.raises(TypeError, match="logsumexp"):
        cygrad.special.logsumexp(cygrad.ones(2))
