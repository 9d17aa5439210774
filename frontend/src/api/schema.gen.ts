// Made by scripts/types.mjs from the server's OpenAPI document. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * BadRows
         * @description What happens where a row of the data can't be used.
         * @enum {string}
         */
        BadRows: "refuse" | "skip";
        /**
         * BlockFacts
         * @description One block.
         */
        BlockFacts: {
            /**
             * Bytes
             * @description bytes used of the block, in the compute dtype
             */
            bytes: number;
            /** Elements */
            elements: number;
            /**
             * Parameters
             * @description names of the parameters that it holds wholly or in part, within the stage
             */
            parameters: string[];
            /** Stage */
            stage: number;
        };
        /**
         * BlockLayout
         * @description Every block of a run, in order: what a residency frame's positions mean.
         */
        BlockLayout: {
            /** Block Bytes */
            block_bytes: number;
            /** Blocks */
            blocks: components["schemas"]["BlockFacts"][];
            /** Compute Dtype */
            compute_dtype: string;
            /**
             * Device
             * @description cpu or cuda:0
             */
            device: string;
            /**
             * Max Device Blocks
             * @description slots of the arena
             */
            max_device_blocks: number;
            /**
             * Parameters
             * @description elements of the whole model
             */
            parameters: number;
            /** Stages */
            stages: components["schemas"]["StageLayout"][];
        };
        /**
         * ChatMessage
         * @description One turn of a conversation.
         */
        ChatMessage: {
            /** Content */
            content: string;
            /**
             * Role
             * @enum {string}
             */
            role: "system" | "user" | "assistant";
        };
        /**
         * ChatTemplate
         * @description What conversations are rendered with.
         * @enum {string}
         */
        ChatTemplate: "tokenizer" | "chatml" | "llama3" | "gemma" | "alpaca";
        /**
         * Checkpoint
         * @description One checkpoint folder of a run.
         */
        Checkpoint: {
            /**
             * Best
             * @description whether it has the lowest eval loss; it is never rotated away
             * @default false
             */
            best?: boolean;
            /**
             * Broken
             * @description why it can't be used; empty where it is whole
             * @default
             */
            broken?: string;
            /** Bytes */
            bytes: number;
            /**
             * Eval Loss
             * @description of these very weights, where it was measured
             */
            eval_loss?: number | null;
            /**
             * Nonfinite
             * @description values in it that are NaN or infinite
             * @default 0
             */
            nonfinite?: number;
            /**
             * Path
             * @description folder, relative to the run's folder
             */
            path: string;
            /**
             * Pinned
             * @description whether somebody keeps it from being rotated away
             * @default false
             */
            pinned?: boolean;
            /** Step */
            step: number;
            /**
             * Time
             * @description when it was written, where it can still tell
             */
            time?: string | null;
        };
        /**
         * CheckpointFrame
         * @description A checkpoint, as streamed.
         */
        CheckpointFrame: {
            /** Bytes */
            bytes: number;
            /**
             * Path
             * @description folder, relative to the run's folder
             */
            path: string;
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            /** Step */
            step: number;
            /**
             * Time
             * Format: date-time
             * @description when it happened, UTC
             */
            time?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "checkpoint";
        };
        /**
         * CheckpointsAnswer
         * @description The checkpoints of a run, by step.
         */
        CheckpointsAnswer: {
            /** Checkpoints */
            checkpoints: components["schemas"]["Checkpoint"][];
        };
        /**
         * DataFileView
         * @description One data file and what it turned out to be.
         */
        DataFileView: {
            /**
             * Compression
             * @description gzip, zstd or empty
             */
            compression: string;
            /**
             * Container
             * @description JSON lines, JSON, CSV, Parquet or text; empty where it can't be read
             */
            container: string;
            /**
             * Container Reason
             * @description what told the container
             */
            container_reason: string;
            /**
             * Formats
             * @description format of its rows -> what told it
             */
            formats: {
                [key: string]: string;
            };
            /** Path */
            path: string;
            /**
             * Rows
             * @description rows of it that can be read
             */
            rows: number;
        };
        /**
         * DataFormat
         * @description Shape of the rows.
         * @enum {string}
         */
        DataFormat: "auto" | "messages" | "sharegpt" | "alpaca" | "prompt_completion" | "text";
        /**
         * DataPreview
         * @description What some data files hold.
         */
        DataPreview: {
            /**
             * Bad Rows
             * @description rows that can't be used
             */
            bad_rows: number;
            /**
             * Complete
             * @description whether all of the data was looked at; only the beginning of much data is
             */
            complete: boolean;
            /**
             * Dropped
             * @description rows dropped as too long; null without a tokenizer
             */
            dropped: number | null;
            /**
             * Errors
             * @description the first things wrong, by file, line and field
             */
            errors: components["schemas"]["FieldProblem"][];
            /** Files */
            files: components["schemas"]["DataFileView"][];
            /**
             * Fingerprint
             * @description as a run over this data would record it; null where it has problems or was not read to its end
             */
            fingerprint: string | null;
            /**
             * Format
             * @description formats of the rows, joined by plus signs; empty where there is no row
             */
            format: string;
            /**
             * Num Errors
             * @description all of them
             */
            num_errors: number;
            /**
             * Num Sequences
             * @description samples before packing; null without a tokenizer
             */
            num_sequences: number | null;
            /**
             * Num Tokens
             * @description tokens of all samples; null without a tokenizer
             */
            num_tokens: number | null;
            /**
             * Num Trained Tokens
             * @description those that count in the loss; null without a tokenizer
             */
            num_trained_tokens: number | null;
            /**
             * Rows
             * @description rows that can be read
             */
            rows: number;
            /** Samples */
            samples: components["schemas"]["SampleView"][];
            /**
             * Skipped
             * @description rows without a token to train on; null without a tokenizer
             */
            skipped: number | null;
            /**
             * Used
             * @description rows that are trained on; null without a tokenizer
             */
            used: number | null;
            /** Warnings */
            warnings: components["schemas"]["FieldProblem"][];
        };
        /**
         * DatasetEntry
         * @description One data file.
         */
        DatasetEntry: {
            /** Bytes */
            bytes: number;
            /**
             * Kind
             * @description by the ending of the name; a preview looks at the content
             * @enum {string}
             */
            kind: "text" | "jsonl" | "json" | "csv" | "parquet";
            /** Name */
            name: string;
            /**
             * Path
             * @description as to be written in the spec
             */
            path: string;
        };
        /**
         * DatasetsAnswer
         * @description The data files in the allowed folders.
         */
        DatasetsAnswer: {
            /** Datasets */
            datasets: components["schemas"]["DatasetEntry"][];
        };
        /**
         * DeviceUse
         * @description The device that trains: the first CUDA card, else the CPU.
         */
        DeviceUse: {
            /**
             * Kind
             * @enum {string}
             */
            kind: "cuda" | "cpu";
            /**
             * Memory Total
             * @description bytes
             */
            memory_total: number;
            /**
             * Memory Used
             * @description bytes; null where it can't be asked
             */
            memory_used: number | null;
            /** Name */
            name: string;
        };
        /**
         * DiskUse
         * @description The disk of the home folder.
         */
        DiskUse: {
            /**
             * Free
             * @description bytes
             */
            free: number;
            /** Path */
            path: string;
            /**
             * Total
             * @description bytes
             */
            total: number;
        };
        /**
         * EditBody
         * @description New labels of a run; what is left out stays.
         */
        EditBody: {
            /** Name */
            name?: string | null;
            /** Notes */
            notes?: string | null;
            /** Tags */
            tags?: string[] | null;
        };
        /**
         * EventsAnswer
         * @description Events of a run, in order.
         */
        EventsAnswer: {
            /** Events */
            events: (components["schemas"]["StateFrame"] | components["schemas"]["MetricsFrame"] | components["schemas"]["LogFrame"] | components["schemas"]["FactFrame"] | components["schemas"]["CheckpointFrame"] | components["schemas"]["SampleFrame"])[];
            /**
             * Last Seq
             * @description place of the newest event of the run
             */
            last_seq: number;
        };
        /**
         * ExampleAnswer
         * @description The example: a spec that can be submitted as it is.
         */
        ExampleAnswer: {
            /** Folder */
            folder: string;
            /**
             * Spec
             * @description paths are relative to the home folder
             */
            spec: {
                [key: string]: unknown;
            };
        };
        /**
         * ExportAsked
         * @description Where a checkpoint goes, and as what.
         */
        ExportAsked: {
            /**
             * Checkpoint
             * @description step of the checkpoint; the newest where null
             */
            checkpoint?: number | null;
            /** @description bf16, fp16 or fp32; for gguf fp16 or q8_0; bf16 and fp16 where null */
            dtype?: components["schemas"]["ExportDtype"] | null;
            /**
             * @description safetensors or gguf
             * @default safetensors
             */
            format?: components["schemas"]["ExportFormat"];
            /**
             * Path
             * @description folder to make; over REST relative to the home folder
             */
            path: string;
            /**
             * Shard Size
             * @description largest safetensors file, for example 2GiB
             * @default 4294967296
             */
            shard_size?: string | number;
        };
        /**
         * ExportDtype
         * @description Format of the written weights.
         * @enum {string}
         */
        ExportDtype: "bf16" | "fp16" | "fp32" | "q8_0";
        /**
         * Exported
         * @description An export that is there, whole and read back.
         */
        Exported: {
            /**
             * Bytes
             * @description of all files
             */
            bytes: number;
            /** Checkpoint */
            checkpoint: number;
            /**
             * Compared Tensors
             * @description tensors that were read back and are what was meant
             */
            compared_tensors: number;
            dtype: components["schemas"]["ExportDtype"];
            /** Files */
            files: components["schemas"]["ExportedFile"][];
            format: components["schemas"]["ExportFormat"];
            /**
             * Loaded
             * @description whether transformers loaded the folder and computed finite logits with it
             */
            loaded: boolean;
            /**
             * Notes
             * @description what was left out, and why
             */
            notes: string[];
            /**
             * Parameters
             * @description elements of all written tensors
             */
            parameters: number;
            /** Path */
            path: string;
            /**
             * Peak Bytes
             * @description peak resident memory of the process that wrote it
             */
            peak_bytes: number;
            /** Seconds */
            seconds: number;
            /**
             * Type
             * @default exported
             * @constant
             */
            type?: "exported";
        };
        /**
         * ExportedFile
         * @description One file of an export.
         */
        ExportedFile: {
            /** Bytes */
            bytes: number;
            /** Name */
            name: string;
            /** Sha256 */
            sha256: string;
        };
        /**
         * ExportFormat
         * @description Kind of files.
         * @enum {string}
         */
        ExportFormat: "safetensors" | "gguf";
        /**
         * FactFrame
         * @description A fact, as streamed.
         */
        FactFrame: {
            /** Data */
            data?: {
                [key: string]: unknown;
            };
            /** Kind */
            kind: string;
            /** Message */
            message: string;
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            /**
             * Time
             * Format: date-time
             * @description when it happened, UTC
             */
            time?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "event";
        };
        /**
         * FieldProblem
         * @description One thing wrong with one field of the input.
         */
        FieldProblem: {
            /**
             * Field
             * @description dotted path of the field, for example offload.policy; empty for the whole input
             */
            field: string;
            /**
             * File
             * @description file the value came from, where there is one
             */
            file?: string | null;
            /**
             * Fix
             * @description what to do about it
             * @default
             */
            fix?: string;
            /**
             * Line
             * @description line in that file, counted from 1
             */
            line?: number | null;
            /**
             * Message
             * @description what is wrong, with the numbers
             */
            message: string;
        };
        Frame: components["schemas"]["StateFrame"] | components["schemas"]["MetricsFrame"] | components["schemas"]["LogFrame"] | components["schemas"]["FactFrame"] | components["schemas"]["CheckpointFrame"] | components["schemas"]["SampleFrame"];
        /**
         * Freed
         * @description What a deletion gave back.
         */
        Freed: {
            /** Freed Bytes */
            freed_bytes: number;
        };
        /**
         * GenerateBody
         * @description What a model is asked over HTTP.
         */
        GenerateBody: {
            /**
             * Checkpoint
             * @description step of the checkpoint; the newest where null
             */
            checkpoint?: number | null;
            /**
             * Max New Tokens
             * @default 256
             */
            max_new_tokens?: number;
            /**
             * Messages
             * @description a conversation, by the tokenizer's chat template
             */
            messages?: components["schemas"]["ChatMessage"][] | null;
            /**
             * Prompt
             * @description text to continue, without a chat template
             */
            prompt?: string | null;
            /**
             * Seed
             * @description the same seed draws the same tokens
             * @default 0
             */
            seed?: number;
            /**
             * Stream
             * @description answer token by token, as server-sent events
             * @default false
             */
            stream?: boolean;
            /**
             * Temperature
             * @description 0 takes the likeliest token each time
             * @default 0
             */
            temperature?: number;
            /**
             * Top K
             * @description tokens are drawn from this many likeliest; 0: from all
             * @default 0
             */
            top_k?: number;
            /**
             * Top P
             * @description from the likeliest with this probability together
             * @default 1
             */
            top_p?: number;
        };
        /**
         * Health
         * @description That the server lives.
         */
        Health: {
            /**
             * Status
             * @default ok
             * @constant
             */
            status?: "ok";
            /** Version */
            version: string;
        };
        /**
         * HostUse
         * @description Processor and memory of this machine, or of the container that the server runs in.
         */
        HostUse: {
            /** Cpu Count */
            cpu_count: number;
            /**
             * Cpu Percent
             * @description use of all processors since the last answer, 0 to 100
             */
            cpu_percent: number;
            /**
             * Memory Available
             * @description bytes
             */
            memory_available: number;
            /**
             * Memory Total
             * @description bytes
             */
            memory_total: number;
        };
        /**
         * Init
         * @description Where the first weights come from.
         * @enum {string}
         */
        Init: "pretrained" | "random";
        /**
         * LogAnswer
         * @description Log lines of a run.
         */
        LogAnswer: {
            /**
             * Last Seq
             * @description place of the newest event of the run; ask again with `after` set to the last line's
             */
            last_seq: number;
            /** Lines */
            lines: components["schemas"]["LogLine"][];
        };
        /**
         * LogFrame
         * @description A log line, as streamed.
         */
        LogFrame: {
            /**
             * Level
             * @default info
             * @enum {string}
             */
            level?: "debug" | "info" | "warning" | "error";
            /** Message */
            message: string;
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            /**
             * Time
             * Format: date-time
             * @description when it happened, UTC
             */
            time?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "log";
        };
        /**
         * LogLine
         * @description One log line of a run.
         */
        LogLine: {
            /**
             * Level
             * @enum {string}
             */
            level: "debug" | "info" | "warning" | "error";
            /** Message */
            message: string;
            /** Seq */
            seq: number;
            /**
             * Time
             * Format: date-time
             */
            time: string;
        };
        /**
         * MetricsFrame
         * @description The numbers of one optimizer step, as streamed.
         */
        MetricsFrame: {
            /**
             * Nonfinite
             * @description which values were not finite, and how
             */
            nonfinite?: {
                [key: string]: "nan" | "inf" | "-inf";
            };
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            /**
             * Step
             * @description optimizer step, counted from 1
             */
            step: number;
            /**
             * Time
             * Format: date-time
             * @description when it happened, UTC
             */
            time?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "metrics";
            /**
             * Values
             * @description metric key -> value; null where not finite
             */
            values: {
                [key: string]: number | null;
            };
        };
        /**
         * ModelEntry
         * @description One model folder.
         */
        ModelEntry: {
            /** Architecture */
            architecture: string | null;
            /**
             * Bytes
             * @description size of the weight files
             */
            bytes: number;
            /** Dtype */
            dtype: string | null;
            /** Has Weights */
            has_weights: boolean;
            /** Layers */
            layers: number | null;
            /** Name */
            name: string;
            /**
             * Parameters
             * @description elements of all weights; estimated where there are none yet
             */
            parameters: number | null;
            /**
             * Path
             * @description as to be written in the spec
             */
            path: string;
            /**
             * Reason
             * @description why it can't be trained, or only from random weights; empty where it can
             */
            reason: string;
            /**
             * Starts From
             * @description the values of model.init with which a run can be started
             */
            starts_from: components["schemas"]["Init"][];
            /**
             * Trainable
             * @description whether a run of its own weights can be started
             */
            trainable: boolean;
        };
        /**
         * ModelsAnswer
         * @description The models in the allowed folders.
         */
        ModelsAnswer: {
            /**
             * Folders
             * @description folders that were looked through
             */
            folders: string[];
            /** Models */
            models: components["schemas"]["ModelEntry"][];
        };
        /**
         * ModelSummary
         * @description The model of a run in a few words.
         */
        ModelSummary: {
            /** Architecture */
            architecture?: string | null;
            /** Name */
            name: string;
            /**
             * Parameters
             * @description elements of all weights
             */
            parameters?: number | null;
        };
        /**
         * NewRunBody
         * @description A run to be submitted.
         */
        NewRunBody: {
            /**
             * Spec
             * @description the run spec; /api/v1/spec/schema has its schema
             */
            spec: unknown;
            /**
             * Start
             * @description false keeps the run out of the queue until it is started
             * @default true
             */
            start?: boolean;
        };
        /**
         * PeakUse
         * @description Highest use of each tier over a run, measured by the engine.
         */
        PeakUse: {
            /**
             * Device Blocks
             * @description most slots of the arena in use at once
             * @default 0
             */
            device_blocks?: number;
            /**
             * Device Bytes
             * @default 0
             */
            device_bytes?: number;
            /**
             * Disk Bytes
             * @default 0
             */
            disk_bytes?: number;
            /**
             * Host Bytes
             * @default 0
             */
            host_bytes?: number;
            /**
             * Resident Bytes
             * @description peak resident memory of the worker process
             * @default 0
             */
            resident_bytes?: number;
        };
        /**
         * Problem
         * @description An RFC 9457 problem document.
         */
        Problem: {
            /**
             * Detail
             * @description what happened this time, with the numbers, and what to do
             * @default
             */
            detail?: string;
            /**
             * Errors
             * @description one entry per faulty field
             */
            errors?: components["schemas"]["FieldProblem"][];
            /**
             * Status
             * @description HTTP status code
             */
            status: number;
            /**
             * Title
             * @description the kind of problem in words
             */
            title: string;
            /**
             * Type
             * @description a stable name of the kind of problem
             * @default about:blank
             */
            type?: string;
        };
        /**
         * ResidencyAnswer
         * @description The residency map at a moment.
         */
        ResidencyAnswer: {
            /**
             * Frame
             * @description base64 of one binary frame; null where none was recorded yet
             */
            frame: string | null;
            layout: components["schemas"]["BlockLayout"];
        };
        /**
         * ResidencyWish
         * @description What a viewer may send: how many residency frames a second it wants at most.
         */
        ResidencyWish: {
            /** Residency Hz */
            residency_hz: number;
        };
        /**
         * ResumeBody
         * @description What is to be different when a run goes on.
         */
        ResumeBody: {
            /**
             * Set
             * @description new values of the spec by dotted key, for example {"training.optimizer_steps": 400}
             */
            set?: {
                [key: string]: unknown;
            };
        };
        /**
         * Run
         * @description One run as the history lists it.
         */
        Run: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Device */
            device: string | null;
            /** Ended At */
            ended_at: string | null;
            /** Id */
            id: string;
            /**
             * Last Seq
             * @description place of the newest event in the run's stream
             */
            last_seq: number;
            /**
             * Metrics
             * @description last value of each metric; null where it was not finite
             */
            metrics: {
                [key: string]: number | null;
            };
            model: components["schemas"]["ModelSummary"];
            /** Name */
            name: string;
            /** Notes */
            notes: string;
            /** Reason */
            reason: string;
            /**
             * Sparkline
             * @description at most 32 losses, evenly spaced over the run
             */
            sparkline: (number | null)[];
            /** Started At */
            started_at: string | null;
            state: components["schemas"]["RunState"];
            /**
             * Step
             * @description optimizer steps done
             */
            step: number;
            /** Tags */
            tags: string[];
            /** Total Steps */
            total_steps: number | null;
        };
        /**
         * RunDetail
         * @description One run with all that is known of it.
         */
        RunDetail: {
            /** Checkpoints */
            checkpoints: components["schemas"]["Checkpoint"][];
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Device */
            device: string | null;
            /** Ended At */
            ended_at: string | null;
            /** Id */
            id: string;
            /**
             * Last Seq
             * @description place of the newest event in the run's stream
             */
            last_seq: number;
            /**
             * Layout Ready
             * @description whether the residency map can be asked for
             */
            layout_ready: boolean;
            /**
             * Metrics
             * @description last value of each metric; null where it was not finite
             */
            metrics: {
                [key: string]: number | null;
            };
            model: components["schemas"]["ModelSummary"];
            /** Name */
            name: string;
            /** Notes */
            notes: string;
            outcome: components["schemas"]["RunOutcome"] | null;
            /**
             * Plan
             * @description data of the plan event: resolved values, bytes per tier
             */
            plan: {
                [key: string]: unknown;
            } | null;
            /** Reason */
            reason: string;
            /**
             * Sparkline
             * @description at most 32 losses, evenly spaced over the run
             */
            sparkline: (number | null)[];
            /**
             * Spec
             * @description as asked
             */
            spec: {
                [key: string]: unknown;
            };
            /** Started At */
            started_at: string | null;
            state: components["schemas"]["RunState"];
            /**
             * Step
             * @description optimizer steps done
             */
            step: number;
            /** Tags */
            tags: string[];
            /** Total Steps */
            total_steps: number | null;
        };
        /**
         * RunFrame
         * @description A frame of the stream over all runs: one whose state or step changed.
         */
        RunFrame: {
            run: components["schemas"]["Run"];
            /**
             * Type
             * @default run
             * @constant
             */
            type?: "run";
        };
        /**
         * RunOutcome
         * @description How a run ended: the body of `horizon run --json`.
         */
        RunOutcome: {
            /** Metrics */
            metrics?: {
                [key: string]: number | null;
            };
            /**
             * Optimizer Steps
             * @default 0
             */
            optimizer_steps?: number;
            /**
             * @default {
             *       "device_blocks": 0,
             *       "device_bytes": 0,
             *       "host_bytes": 0,
             *       "disk_bytes": 0,
             *       "resident_bytes": 0
             *     }
             */
            peak?: components["schemas"]["PeakUse"];
            /**
             * Reason
             * @default
             */
            reason?: string;
            /**
             * Seconds
             * @default 0
             */
            seconds?: number;
            state: components["schemas"]["RunState"];
        };
        /**
         * RunPage
         * @description A page of the history.
         */
        RunPage: {
            /**
             * Counts
             * @description runs in each state that match the filters other than the state
             */
            counts: {
                [key: string]: number;
            };
            /**
             * Next Cursor
             * @description give this as `cursor` for the next page; null on the last one
             */
            next_cursor: string | null;
            /** Runs */
            runs: components["schemas"]["Run"][];
            /**
             * Total
             * @description runs that match all filters
             */
            total: number;
        };
        /**
         * RunState
         * @description Where a run is in its life.
         * @enum {string}
         */
        RunState: "queued" | "starting" | "running" | "paused" | "stopping" | "finished" | "stopped" | "failed" | "interrupted";
        /**
         * SampleFrame
         * @description Text that the model wrote while it trained, as streamed.
         */
        SampleFrame: {
            /**
             * Ending
             * @description stop: the model ended it; length: samples.max_new_tokens; cancelled: the run was asked to stop
             * @enum {string}
             */
            ending: "stop" | "length" | "cancelled";
            /**
             * Num Tokens
             * @description tokens generated, the end mark left out
             */
            num_tokens: number;
            /** Prompt */
            prompt: string;
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            /**
             * Step
             * @description optimizer steps done when it was written
             */
            step: number;
            /**
             * Text
             * @description what follows the prompt
             */
            text: string;
            /**
             * Time
             * Format: date-time
             * @description when it happened, UTC
             */
            time?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "sample";
        };
        /**
         * SampleView
         * @description One sample as it is trained: a row, or a piece of a long text.
         */
        SampleView: {
            /** File */
            file: string;
            /**
             * Ids
             * @description ids of the first tokens; empty without a tokenizer
             */
            ids: number[];
            /**
             * Labels
             * @description the id where it counts, else -100; empty without a tokenizer
             */
            labels: number[];
            /**
             * Line
             * @description line in that file, counted from 1; in Parquet the row
             */
            line: number;
            /**
             * Num Tokens
             * @description tokens of the whole sample; null without a tokenizer
             */
            num_tokens: number | null;
            /**
             * Num Trained
             * @description those of them that count in the loss; null without a tokenizer
             */
            num_trained: number | null;
            /**
             * Piece
             * @description piece of a long text, counted from 1; 0 where it is not split
             */
            piece: number;
            /**
             * Text
             * @description the text of the tokens that are shown
             */
            text: string;
            /**
             * Tokens
             * @description text of each of them; whole messages without a tokenizer
             */
            tokens: string[];
            /**
             * Trained
             * @description whether each of them counts in the loss
             */
            trained: boolean[];
            /**
             * Trained Spans
             * @description the text of each run of trained tokens
             */
            trained_spans: string[];
        };
        /**
         * Series
         * @description One metric over optimizer steps.
         */
        Series: {
            /**
             * X
             * @description optimizer steps
             */
            x: number[];
            /**
             * Y
             * @description values; null where not finite
             */
            y: (number | null)[];
        };
        /**
         * SeriesAnswer
         * @description Metrics of a run, thinned to minimum, maximum and last of each bucket.
         */
        SeriesAnswer: {
            /**
             * Nonfinite
             * @description steps at which a metric was not finite, and how
             */
            nonfinite: {
                [key: string]: [
                    number,
                    "nan" | "inf" | "-inf"
                ][];
            };
            /** Series */
            series: {
                [key: string]: components["schemas"]["Series"];
            };
        };
        /**
         * SnapshotFrame
         * @description The first frame of a stream that was opened without `after`: the run as it is, up to `seq`.
         */
        SnapshotFrame: {
            run: components["schemas"]["Run"];
            /**
             * Seq
             * @description the events up to this one are contained in the run's fields
             */
            seq: number;
            /**
             * Time
             * Format: date-time
             */
            time: string;
            /**
             * Type
             * @default snapshot
             * @constant
             */
            type?: "snapshot";
        };
        /**
         * StageLayout
         * @description One stage and its run of blocks.
         */
        StageLayout: {
            /** First Block */
            first_block: number;
            /**
             * Name
             * @description for example embed, L0, head
             */
            name: string;
            /** Num Blocks */
            num_blocks: number;
        };
        /**
         * StateFrame
         * @description A change of state, as streamed.
         */
        StateFrame: {
            /**
             * Reason
             * @description why, in one sentence with the numbers
             * @default
             */
            reason?: string;
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            state: components["schemas"]["RunState"];
            /**
             * Time
             * Format: date-time
             * @description when it happened, UTC
             */
            time?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "state";
        };
        /**
         * StopBody
         * @description How a run is stopped.
         */
        StopBody: {
            /**
             * Save
             * @description write a checkpoint of the last step before stopping
             * @default true
             */
            save?: boolean;
        };
        StreamFrame: (components["schemas"]["StateFrame"] | components["schemas"]["MetricsFrame"] | components["schemas"]["LogFrame"] | components["schemas"]["FactFrame"] | components["schemas"]["CheckpointFrame"] | components["schemas"]["SampleFrame"]) | components["schemas"]["SnapshotFrame"];
        /**
         * SystemAnswer
         * @description What the machine has and what it uses now.
         */
        SystemAnswer: {
            /**
             * Active Run
             * @description the run that has the device now
             */
            active_run: string | null;
            device: components["schemas"]["DeviceUse"];
            disk: components["schemas"]["DiskUse"];
            /** Home */
            home: string;
            host: components["schemas"]["HostUse"];
            /** Version */
            version: string;
        };
        /**
         * TextDone
         * @description The answer is whole.
         */
        TextDone: {
            /**
             * Checkpoint
             * @description step of the checkpoint that answered
             */
            checkpoint: number;
            /**
             * Ending
             * @description stop: the model ended it; length: max_new_tokens, or no position left; cancelled: nobody waited
             * @enum {string}
             */
            ending: "stop" | "length" | "cancelled";
            /**
             * New Tokens
             * @description tokens generated, the end mark left out
             */
            new_tokens: number;
            /** Prompt Tokens */
            prompt_tokens: number;
            /** Seconds */
            seconds: number;
            /** Text */
            text: string;
            /**
             * Type
             * @default done
             * @constant
             */
            type?: "done";
        };
        /**
         * TooLong
         * @description What happens to a conversation or answer that is longer than a sequence.
         * @enum {string}
         */
        TooLong: "truncate" | "drop";
        /**
         * TrainOn
         * @description Which tokens count in the loss.
         * @enum {string}
         */
        TrainOn: "completions" | "all";
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
