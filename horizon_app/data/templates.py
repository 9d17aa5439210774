"""Chat templates for models that bring none. None is ever taken unless the spec names it (data.chat_template)."""

from horizon_app.contracts.spec_words import ChatTemplate

_CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
_ALTERNATE = "{{ raise_exception('conversation roles must alternate user/assistant/user/assistant/...') }}"
_GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('system role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}" + _ALTERNATE + "{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' + m['content'] | trim "
    "+ '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
_ALPACA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}"
    "{{ '### Response:\\n' + m['content'] + eos_token + '\\n\\n' }}"
    "{% elif m['role'] == 'user' %}{{ '### Instruction:\\n' + m['content'] + '\\n\\n' }}"
    "{% else %}{{ m['content'] + '\\n\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### Response:\\n' }}{% endif %}"
)
_TEXTS = {
    ChatTemplate.CHATML: _CHATML,
    ChatTemplate.LLAMA3: _LLAMA3,
    ChatTemplate.GEMMA: _GEMMA,
    ChatTemplate.ALPACA: _ALPACA,
}


def built_in_template(name: ChatTemplate) -> str | None:
    """The Jinja text of a template that comes with Horizon; None for the tokenizer's own."""
    return _TEXTS.get(name)


def built_in_names() -> str:
    """Their names in words, for advice."""
    return ", ".join(name.value for name in _TEXTS)
