/** Names of the spec's fields in both languages, and in Chinese their effect too (the schema tells it in English). */
import type { Language } from "./language.svelte";

interface KnobText {
  en: string;
  zh: string;
  effect: string;
}

const k = (en: string, zh: string, effect: string): KnobText => ({ en, zh, effect });

const KNOBS: Record<string, KnobText> = {
  "data.format": k("Format", "格式", "行的形式；auto 看内容决定"),
  "data.sequence_length": k("Sequence length", "序列长度", "每条序列的词元数"),
  "data.train_on": k("Train on", "训练目标", "completions 只训练助手的话；纯文本总是全部训练"),
  "data.packing": k("Packing", "打包", "把多个样本放进一条序列，互不注意"),
  "data.seed": k("Data seed", "数据种子", "样本顺序的种子"),
  "data.eval_path": k("Eval data", "评估数据", "用于评估损失的数据"),
  "data.eval_fraction": k("Eval share", "评估比例", "留作评估的样本比例"),
  "model.init": k("Weights", "权重", "pretrained 读取权重；random 只需 config.json 和分词器"),
  "training.optimizer_steps": k("Optimizer steps", "优化步数", "权重更新次数；未给 epochs 时为 200"),
  "training.epochs": k("Epochs", "轮数", "遍历数据的次数，代替优化步数"),
  "training.global_batch_size": k("Global batch", "全局批大小", "每个优化步的序列数，含所有微批"),
  "training.micro_batch_size": k("Micro-batch", "微批", "每次调用的序列数；auto 按可用内存决定"),
  "training.learning_rate": k("Learning rate", "学习率", "学习率峰值"),
  "training.schedule": k("Schedule", "学习率曲线", "预热之后学习率的形状"),
  "training.warmup_steps": k("Warm-up", "预热", "线性预热的优化步数，或小于 1 的比例"),
  "training.weight_decay": k("Weight decay", "权重衰减", "AdamW 的解耦衰减；不用于归一化和偏置"),
  "training.betas": k("Betas", "Betas", "AdamW 两个动量的衰减率"),
  "training.eps": k("Epsilon", "Epsilon", "AdamW 防止除零的项"),
  "training.max_grad_norm": k("Gradient clipping", "梯度裁剪", "全局梯度范数的上限；0 为关闭"),
  "training.gradient_ema": k("Gradient average", "梯度平均", "梯度滑动平均的衰减；0 为关闭"),
  "training.seed": k("Seed", "种子", "随机权重和 dropout 的种子"),
  "precision.compute": k("Compute", "计算格式", "设备上权重和乘积的格式；auto 在 bf16 快时取 bf16"),
  "precision.loss_scale": k("Loss scale", "损失缩放", "dynamic，或一个大于 0 且保持不变的数；仅用于 fp16"),
  "precision.keep_fp32": k("Kept in fp32", "保持 fp32", "以 fp32 计算的层，按模块名的一部分；norm 总在其中"),
  "precision.optimizer_state": k("Moments", "动量格式", "动量的数字格式；int8 占四分之一内存，按块舍入"),
  "offload.device": k("Device", "设备", "auto、cpu、cuda 或 cuda:N"),
  "offload.param_block_size": k("Block size", "块大小", "一个块的字节数；auto 为 sqrt(设备 MiB / 100) MiB"),
  "offload.prefetch_window": k("Prefetch window", "预取窗口", "提前多少个计算步取块；0 为关闭，auto 随停顿时间调整"),
  "offload.max_gpu_blocks": k("Max device blocks", "设备块上限", "设备池的槽位数；auto 取可用的全部，至多整个模型"),
  "offload.policy": k("Replacement policy", "替换策略", "一层满时哪个块离开"),
  "offload.host_memory": k("Host memory", "主机内存", "主机层的上限，超出的部分放在磁盘；auto 取可用的"),
  "offload.disk": k("Disk tier", "磁盘层", "auto 在主机放不下时用磁盘层，on 总是准备，off 从不"),
  "offload.disk_path": k("Disk folder", "磁盘文件夹", "磁盘层的文件夹，应在本地磁盘；留空为运行自己的文件夹"),
  "offload.disk_memory": k("Disk limit", "磁盘上限", "磁盘层的上限；留空为所在卷的可用空间"),
  "accumulation.policy": k("Accumulation", "累积方式", "固定，或 adaptive：设备内存不足时增加微批数"),
  "accumulation.steps": k("Accumulation steps", "累积步数", "每个优化步的微批数；auto 为全局批大小除以微批"),
  "accumulation.keep_global_batch": k("Keep global batch", "保持全局批", "调整时在微批与步数之间取舍"),
  "compression.parameters": k("Weights to device", "权重上行", "delta 只传改变的元素"),
  "compression.gradients": k("Gradients to host", "梯度下行", "梯度传往主机的方式"),
  "compression.activations": k("Activations", "激活", "保留的层输入"),
  "compute.fuse_linears": k("Fuse linears", "合并线性层", "把 q/k/v 和 gate/up 合成一次乘法"),
  "compute.cuda_graphs": k("CUDA graphs", "CUDA 图", "在 CUDA 上捕获并重放固定阶段"),
  "compute.recompute": k("Recompute", "重计算", "反向时重算层内激活；auto 在内存允许的范围内尽量多保留几层"),
  "compute.schedule": k("Order", "次序", "layer_major 每层权重只搬一次，micro_batch_major 保留的激活更少"),
  "compute.cpu_layers": k("Layers on the CPU", "CPU 上的层", "auto、off，或在 CPU 上计算的复杂度门槛"),
  "checkpoint.every": k("Checkpoint every", "检查点间隔", "两个检查点之间的优化步数；0 只在结束时写"),
  "checkpoint.keep": k("Checkpoints kept", "保留检查点", "保留最新的几个；评估损失最低的和固定的另外保留"),
  "evaluation.every": k("Evaluate every", "评估间隔", "两次评估之间的优化步数，结束时再评估一次；0 为关闭"),
  "samples.every": k("Sample every", "采样间隔", "两次采样之间的优化步数，结束时再采样一次；0 为关闭"),
  "samples.prompts": k("Prompts", "提示词", "分词器带对话模板时作为用户消息，否则作为要续写的文本"),
  "samples.max_new_tokens": k("Sample length", "样例长度", "一个样例最多的词元数"),
  "samples.temperature": k("Temperature", "温度", "0 每次取最可能的词元；大于 0 则抽取"),
  "samples.top_p": k("Top-p", "Top-p", "只从概率之和达到此值的最可能词元中抽取"),
};

const UNITS: Record<string, string> = {
  steps: "步",
  epochs: "轮",
  sequences: "条",
  tokens: "词元",
  bytes: "字节",
  blocks: "块",
  "compute steps": "计算步",
  "micro-batches": "微批",
  checkpoints: "个",
};

/** A field's name; the last part of its path where there is no better. */
export function knobName(path: string, language: Language): string {
  return KNOBS[path]?.[language] ?? path.slice(path.lastIndexOf(".") + 1).replaceAll("_", " ");
}

/** Whether a path is a field that has a name. */
export const hasKnobName = (path: string): boolean => path in KNOBS;

/** What a field does; `description` is the schema's own text. */
export function knobEffect(path: string, description: string, language: Language): string {
  return language === "zh" ? (KNOBS[path]?.effect ?? description) : description;
}

/** A unit in the reader's language. */
export function knobUnit(unit: string, language: Language): string {
  return language === "zh" ? (UNITS[unit] ?? unit) : unit;
}
