from hypothesis import given
from hypothesis import strategies as st

from remoting.codec import ReplyHead, decode_command, encode_reply_head
from remoting.command import request
from remoting.frame import JSON, ROCKETMQ, FrameDecoder

plain = st.text(alphabet="0123456789ABCDEF,", min_size=1, max_size=300)
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)


@given(
    st.sampled_from([JSON, ROCKETMQ]), st.integers(0, 400), st.dictionaries(texts, texts), st.lists(plain, max_size=4)
)
def test_a_head_that_is_laid_out_says_what_one_made_anew_says(
    serialize_type: int, code: int, constants: dict[str, str], values: list[str]
) -> None:
    names = [f"value {number} at 100%" for number in range(len(values))]
    asked = request(10, {}, serialize_type=serialize_type)
    asked.opaque = 77
    head = ReplyHead(constants, names).encode(asked, code, [value.encode() for value in values])
    fields = {**constants, **dict(zip(names, values, strict=True))}
    anew = encode_reply_head(asked, code, fields, None, 0)
    if serialize_type == ROCKETMQ:
        assert head == anew
    laid_out, made = (decode_command(frame) for raw in (head, anew) for frame in FrameDecoder().feed(raw))
    assert laid_out.ext_fields == made.ext_fields
    assert (laid_out.code, laid_out.opaque, laid_out.flag, laid_out.version) == (code, 77, 1, made.version)
