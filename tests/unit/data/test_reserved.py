"""Special tokens in somebody's words stay words, whatever kind of tokenizer: the copy agrees with the original."""

from collections.abc import Callable

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from horizon_app.data.reserved import ReservedWords

WORDS = ["the words of a small corpus", "small words, the corpus of words", "end of it</s>", "a < b > c | s /"]
SPECIAL = ["<unk>", "<s>", "</s>", "<|end|>"]
RENDERED = "<s>the words<|end|>  of a corpus</s>\nsmall <|end|>words"


def llama2() -> Tokenizer:
    """As sentencepiece BPE: spaces are a mark, bytes are tokens, the special tokens are in the vocabulary."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Replace("▁", " ")
    tokenizer.train_from_iterator(WORDS, trainers.BpeTrainer(vocab_size=120, special_tokens=SPECIAL))
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=SPECIAL, unk_token="<unk>")
    tokenizer.train_from_iterator(WORDS, trainer)
    return tokenizer


def word_level() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(WORDS, trainers.WordLevelTrainer(vocab_size=60, special_tokens=SPECIAL))
    return tokenizer


def byte_level() -> Tokenizer:
    """As GPT-2, with special tokens behind the vocabulary that swallow the spaces beside them, as Phi's do."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(WORDS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    tokenizer.add_tokens(["corpus of"])
    tokenizer.add_special_tokens([AddedToken(word, rstrip=True, lstrip=word == "<|end|>") for word in SPECIAL])
    return tokenizer


KINDS: list[Callable[[], Tokenizer]] = [llama2, unigram, word_level, byte_level]


@pytest.mark.parametrize("kind", KINDS)
def test_copy_of_a_tokenizer_gives_its_ids_and_offsets_where_nothing_is_spelt_out(
    kind: Callable[[], Tokenizer],
) -> None:
    tokenizer = kind()
    reserved = ReservedWords(tokenizer)
    ordinary = tokenizer.encode(RENDERED, add_special_tokens=False)
    ids, offsets = reserved.encode(reserved.renamed(RENDERED))
    assert ids.tolist() == ordinary.ids
    assert len(offsets) == len(ordinary.offsets)


@pytest.mark.parametrize("kind", KINDS)
def test_copy_of_a_tokenizer_takes_marked_words_for_text(kind: Callable[[], Tokenizer]) -> None:
    tokenizer = kind()
    reserved = ReservedWords(tokenizer)
    said = "a</s> <|end|>b<s>"
    assert reserved.appear_in([{"content": said}])
    text = "<s>" + reserved.marked(said) + "</s>"
    ids = reserved.encode(reserved.renamed(text))[0].tolist()
    special = [tokenizer.token_to_id(word) for word in ("<s>", "</s>", "<|end|>")]
    assert [ids.count(token) for token in special] == [1, 1, 0]
    assert (ids[0], ids[-1]) == (special[0], special[1])


def test_marks_are_around_every_character_and_vanish() -> None:
    reserved = ReservedWords(byte_level())
    marked = reserved.marked({"content": ["no <s> here", 3, None]})
    assert marked["content"][0].replace("\ufdd0", "") == "no <s> here"
    assert marked["content"][1:] == [3, None]
    assert reserved.renamed(marked["content"][0]) == "no <s> here"
    assert not reserved.appear_in("nothing of the kind")
