# The names of cygrad.signal.windows, each with the type of the function that it is.
from ..autograd.composed.windows import bartlett as bartlett
from ..autograd.composed.windows import blackman as blackman
from ..autograd.composed.windows import cosine as cosine
from ..autograd.composed.windows import exponential as exponential
from ..autograd.composed.windows import gaussian as gaussian
from ..autograd.composed.windows import general_cosine as general_cosine
from ..autograd.composed.windows import general_hamming as general_hamming
from ..autograd.composed.windows import hamming as hamming
from ..autograd.composed.windows import hann as hann
from ..autograd.composed.windows import kaiser as kaiser
from ..autograd.composed.windows import nuttall as nuttall
