// Made by scripts/types.mjs from the server's OpenAPI document. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AppliedFix
         * @description What was done about a check: one of `knobs` and `run` is there.
         */
        AppliedFix: {
            /** Check */
            check: string;
            /** @description what came of the changed knobs until now */
            knobs?: components["schemas"]["ChangedKnobs"] | null;
            remedy: components["schemas"]["Remedy"];
            /** @description the new run with the changed spec */
            run?: components["schemas"]["RunDetail"] | null;
        };
        /**
         * ApplyBody
         * @description How the fix of a check is applied.
         */
        ApplyBody: {
            /**
             * Start
             * @description whether a new run may start at once; it is held until then
             * @default false
             */
            start?: boolean;
        };
        /**
         * Axis
         * @description What compared curves are drawn over.
         * @enum {string}
         */
        Axis: "step" | "tokens" | "seconds";
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
         * Cause
         * @description What ended a run that did not end by itself.
         * @enum {string}
         */
        Cause: "out_of_memory" | "signal" | "exit_code" | "exception" | "reboot" | "folder_gone" | "never_started" | "unknown";
        /**
         * ChangedKnobs
         * @description What came of changes that were asked for.
         */
        ChangedKnobs: {
            /** Changes */
            changes: components["schemas"]["KnobChange"][];
            /**
             * Knobs Version
             * @description to be sent as If-Match with the next change
             */
            knobs_version: number;
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
         * Check
         * @description One item of a checklist.
         */
        Check: {
            /**
             * Evidence
             * @description what was found, with the numbers
             */
            evidence: string;
            /**
             * Fix
             * @description what to do about it; empty where nothing has to be done
             * @default
             */
            fix?: string;
            /**
             * Id
             * @description a stable name, for example disk_space
             */
            id: string;
            /**
             * Threshold
             * @description what is expected; empty where anything is fine
             */
            threshold: string;
            /** Title */
            title: string;
            verdict: components["schemas"]["Verdict"];
        };
        /**
         * CheckFrame
         * @description A check whose verdict changed, as streamed.
         */
        CheckFrame: {
            /**
             * Check
             * @description id of the check, for example divergence
             */
            check: string;
            /**
             * Evidence
             * @description what was found, with the numbers
             */
            evidence: string;
            /**
             * Fix
             * @description what to do about it; empty where nothing has to be done
             */
            fix: string;
            new: components["schemas"]["Verdict"];
            old: components["schemas"]["Verdict"];
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            /**
             * Step
             * @description optimizer steps done when it was looked at
             */
            step: number;
            /**
             * Threshold
             * @description what is expected
             */
            threshold: string;
            /**
             * Time
             * Format: date-time
             * @description when it happened, UTC
             */
            time?: string;
            /** Title */
            title: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "check";
        };
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
         * CloneBody
         * @description What is to be different in the new run.
         */
        CloneBody: {
            /**
             * Name
             * @description the new run's name; that of the spec where left out
             */
            name?: string | null;
            /**
             * Set
             * @description new values of the spec by dotted key, for example {"training.learning_rate": 1e-4}
             */
            set?: {
                [key: string]: unknown;
            };
            /**
             * Start
             * @description false keeps the run from starting until it is released
             * @default true
             */
            start?: boolean;
        };
        /**
         * ComparedRun
         * @description One run in a few numbers.
         */
        ComparedRun: {
            /**
             * Best Eval Loss
             * @description lowest eval/loss
             */
            best_eval_loss: number | null;
            /**
             * Best Loss
             * @description lowest train/loss
             */
            best_loss: number | null;
            /**
             * Best Loss Step
             * @description optimizer step of the lowest train/loss
             */
            best_loss_step: number | null;
            /** Device */
            device: string | null;
            /**
             * Duration S
             * @description seconds that it has had a worker, until now or until it last told something
             */
            duration_s: number | null;
            /** Id */
            id: string;
            /**
             * Last Loss
             * @description newest train/loss; null where it was not finite
             */
            last_loss: number | null;
            /**
             * Metrics
             * @description last value of each metric; null where it was not finite
             */
            metrics: {
                [key: string]: number | null;
            };
            /** Model */
            model: string;
            /** Name */
            name: string;
            /** Reason */
            reason: string;
            /** Started At */
            started_at: string | null;
            state: components["schemas"]["RunState"];
            /**
             * Step
             * @description optimizer steps done
             */
            step: number;
            /**
             * Tokens Per Second
             * @description newest throughput/tokens_per_second
             */
            tokens_per_second: number | null;
            /** Total Steps */
            total_steps: number | null;
        };
        /**
         * ComparedSeries
         * @description One metric of one run.
         */
        ComparedSeries: {
            /**
             * Step
             * @description optimizer steps
             */
            step: number[];
            /**
             * X
             * @description the same places on the axis that was asked for
             */
            x: number[];
            /**
             * Y
             * @description values; null where not finite
             */
            y: (number | null)[];
        };
        /**
         * Comparison
         * @description Several runs side by side, in the order in which they were named.
         */
        Comparison: {
            axis: components["schemas"]["Axis"];
            /**
             * Differences
             * @description keys of the specs, defaults filled in, that are not the same in all; without name, tags and notes
             */
            differences: components["schemas"]["SpecDifference"][];
            /**
             * Nonfinite
             * @description metric key -> run id -> steps at which it was not finite, and how
             */
            nonfinite: {
                [key: string]: {
                    [key: string]: [
                        number,
                        "nan" | "inf" | "-inf"
                    ][];
                };
            };
            /** Runs */
            runs: components["schemas"]["ComparedRun"][];
            /**
             * Series
             * @description metric key -> run id -> points
             */
            series: {
                [key: string]: {
                    [key: string]: components["schemas"]["ComparedSeries"];
                };
            };
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
         * DeviceQueue
         * @description What one device does and what waits for it.
         */
        DeviceQueue: {
            /** Device */
            device: string;
            /**
             * Live
             * @description runs that may have a worker there now
             */
            live: components["schemas"]["Run"][];
            /**
             * Queued
             * @description runs that wait, in order; held ones keep their place
             */
            queued: components["schemas"]["Run"][];
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
            /**
             * Name
             * @description shown in the history
             */
            name?: string | null;
            /**
             * Notes
             * @description free text
             */
            notes?: string | null;
            /**
             * Tags
             * @description words to filter by, in place of all there were
             */
            tags?: string[] | null;
        };
        /**
         * EventsAnswer
         * @description Events of a run, in order.
         */
        EventsAnswer: {
            /** Events */
            events: (components["schemas"]["StateFrame"] | components["schemas"]["MetricsFrame"] | components["schemas"]["LogFrame"] | components["schemas"]["FactFrame"] | components["schemas"]["CheckpointFrame"] | components["schemas"]["SampleFrame"] | components["schemas"]["KnobFrame"] | components["schemas"]["CheckFrame"])[];
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
            format?: components["schemas"]["horizon_app__contracts__export__ExportFormat"];
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
            format: components["schemas"]["ExportFormat-Output"];
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
        "ExportFormat-Output": "safetensors" | "gguf";
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
        Frame: components["schemas"]["StateFrame"] | components["schemas"]["MetricsFrame"] | components["schemas"]["LogFrame"] | components["schemas"]["FactFrame"] | components["schemas"]["CheckpointFrame"] | components["schemas"]["SampleFrame"] | components["schemas"]["KnobFrame"] | components["schemas"]["CheckFrame"];
        /**
         * Freed
         * @description What a deletion gave back.
         */
        Freed: {
            /**
             * Freed Bytes
             * @description on the disk; files that have another name outside of the run count as none
             */
            freed_bytes: number;
            /**
             * Left Bytes
             * @description what could not be removed; the server's next start tries again
             * @default 0
             */
            left_bytes?: number;
            /**
             * Left In
             * @description where that lies, and why it stayed
             * @default
             */
            left_in?: string;
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
             * @description most tokens of the answer
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
             * Proof
             * @description where a nonce was given: shows that this server knows its access token; null: it asks for none
             */
            proof?: string | null;
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
         * ExportFormat
         * @description Kind of files.
         * @enum {string}
         */
        horizon_app__contracts__export__ExportFormat: "safetensors" | "gguf";
        /**
         * ExportFormat
         * @description What a history is exported as.
         * @enum {string}
         */
        horizon_app__control__history_export__ExportFormat: "csv" | "json" | "html";
        /**
         * HostUse
         * @description Processor and memory of this machine, or of the container that the server runs in.
         */
        HostUse: {
            /** Cpu Count */
            cpu_count: number;
            /**
             * Cpu Percent
             * @description use of all processors over the last second or more, 0 to 100
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
         * Knob
         * @description What may change between two optimizer steps: none of these changes a bit of the losses and weights.
         * @enum {string}
         */
        Knob: "prefetch_window" | "max_gpu_blocks" | "policy" | "checkpoint.every" | "evaluation.every" | "samples.every";
        /**
         * KnobChange
         * @description One change of a knob, as the history keeps it.
         */
        KnobChange: {
            knob: components["schemas"]["Knob"];
            /**
             * Message
             * @description why it was refused; empty otherwise
             */
            message: string;
            /** New */
            new: number | string;
            /**
             * Number
             * @description counts the changes of a run
             */
            number: number;
            /**
             * Old
             * @description value before; null where it was not known when it was asked for
             */
            old: number | string | null;
            status: components["schemas"]["KnobStatus"];
            /**
             * Step
             * @description first optimizer step with the new value; null until the worker holds it
             */
            step: number | null;
            /**
             * Time
             * Format: date-time
             * @description when it was asked for, UTC
             */
            time: string;
            /**
             * Undoes
             * @description number of the change that this one takes back
             */
            undoes: number | null;
            /**
             * Who
             * @description who asked
             */
            who: string;
        };
        /**
         * KnobFrame
         * @description A changed knob, as streamed.
         */
        KnobFrame: {
            knob: components["schemas"]["Knob"];
            /**
             * Message
             * @description what changed from which step on, or why it was refused
             */
            message: string;
            /**
             * New
             * @description the value in force now, or the one that was refused
             */
            new: number | string;
            /**
             * Number
             * @description the change that it answers
             */
            number: number;
            /** Old */
            old: number | string;
            /**
             * Seq
             * @description place in the run's stream; rises by one and outlives a server restart
             */
            seq: number;
            /**
             * Status
             * @enum {string}
             */
            status: "holds" | "refused";
            /**
             * Step
             * @description first optimizer step with the new value, or the one before which it was refused
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
            type: "knobs";
            /**
             * Who
             * @description who asked
             * @default
             */
            who?: string;
        };
        /**
         * KnobRange
         * @description One knob of a run: its value in force and what may be asked for.
         */
        KnobRange: {
            /**
             * Fixed
             * @description why it can't change in this run; empty where it can
             * @default
             */
            fixed?: string;
            knob: components["schemas"]["Knob"];
            /**
             * Maximum
             * @description largest number, where one is known
             */
            maximum?: number | null;
            /**
             * Minimum
             * @description smallest number
             */
            minimum?: number | null;
            /**
             * Spec Key
             * @description the key of the spec that holds its first value
             */
            spec_key: string;
            /**
             * Unit
             * @default
             */
            unit?: string;
            /**
             * Value
             * @description in force; null where it is decided when the model is built
             */
            value: number | string | null;
            /**
             * Words
             * @description words that are values too
             */
            words?: string[];
        };
        /**
         * KnobsAnswer
         * @description The knobs of a run, and what was changed.
         */
        KnobsAnswer: {
            /**
             * Changes
             * @description all of the run, oldest first
             */
            changes: components["schemas"]["KnobChange"][];
            /** Knobs */
            knobs: components["schemas"]["KnobRange"][];
            /**
             * Knobs Version
             * @description number of the newest change that was asked for; 0 where there is none
             */
            knobs_version: number;
        };
        /**
         * KnobStatus
         * @description What came of a change.
         * @enum {string}
         */
        KnobStatus: "asked" | "holds" | "refused";
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
            /**
             * Scanned To
             * @description place up to which the log was looked through: go on from it with `after` (with `before`, where `after` was left out); null where there is nothing further to look at
             */
            scanned_to?: number | null;
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
         * MachineReport
         * @description Whether this machine is fit for training.
         */
        MachineReport: {
            /** Checks */
            checks: components["schemas"]["Check"][];
            /** Home */
            home: string;
            /**
             * Time
             * Format: date-time
             */
            time: string;
            /** @description that of the worst check */
            verdict: components["schemas"]["Verdict"];
            /**
             * Version
             * @description of Horizon
             */
            version: string;
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
         * MoveBody
         * @description The new place of a queued run: exactly one of the two.
         */
        MoveBody: {
            /**
             * Before
             * @description the queued run to stand right before; null: behind all
             */
            before?: string | null;
            /**
             * Position
             * @description place in the queue of its device, from 1
             */
            position?: number | null;
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
         * PauseBody
         * @description How a run is paused.
         */
        PauseBody: {
            /**
             * Save
             * @description write a checkpoint of the step first
             * @default false
             */
            save?: boolean;
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
         * QueueAnswer
         * @description The queues of all devices that have something to do.
         */
        QueueAnswer: {
            /** Devices */
            devices: components["schemas"]["DeviceQueue"][];
        };
        /**
         * Remedy
         * @description What a machine can do about a check.
         */
        Remedy: {
            /**
             * By
             * @description knobs: they change while the run runs; clone: a new run begins with a changed spec
             * @enum {string}
             */
            by: "knobs" | "clone";
            /**
             * Set
             * @description new values, by knob, or by dotted key of the spec
             */
            set: {
                [key: string]: unknown;
            };
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
             * Archived At
             * @description since when it is put away
             */
            archived_at?: string | null;
            /** @description what ended a run that did not end by itself */
            cause: components["schemas"]["Cause"] | null;
            /**
             * Cloned From
             * @description the run whose spec it started from
             */
            cloned_from?: string | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Device */
            device: string | null;
            /**
             * Duration S
             * @description seconds that it has had a worker, over all its lives, on a clock that nobody sets; of a live run until it last told something
             */
            duration_s?: number | null;
            /** Ended At */
            ended_at: string | null;
            /**
             * Exit Status
             * @description exit code of its worker, negative for a signal, where it is known
             */
            exit_status: number | null;
            /**
             * Held
             * @description whether it keeps its place in the queue without starting
             * @default false
             */
            held?: boolean;
            /** Id */
            id: string;
            /**
             * Knobs Version
             * @description number of the newest change of a knob; to be sent as If-Match
             */
            knobs_version: number;
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
            /**
             * Queue Device
             * @description the device whose queue it belongs to
             * @default cpu
             */
            queue_device?: string;
            /**
             * Queue Position
             * @description place in that queue, from 1; null unless queued
             */
            queue_position?: number | null;
            /** Reason */
            reason: string;
            /**
             * Resumable
             * @description whether it has ended before its end, and goes on when it is resumed
             */
            resumable: boolean;
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
         * RunCheck
         * @description A check of a run, with what is known of its verdict's past.
         */
        RunCheck: {
            /**
             * Changes
             * @description how often its verdict has changed
             */
            changes: number;
            /**
             * Evidence
             * @description what was found, with the numbers
             */
            evidence: string;
            /**
             * Fix
             * @description what to do about it; empty where nothing has to be done
             * @default
             */
            fix?: string;
            /**
             * Id
             * @description a stable name, for example disk_space
             */
            id: string;
            /**
             * Numbers
             * @description what was measured, by name; null where it was not finite
             */
            numbers: {
                [key: string]: number | null;
            };
            /** @description null where nothing has to be done, or only people can */
            remedy?: components["schemas"]["Remedy"] | null;
            /**
             * Since
             * @description when it came to this verdict; null where nobody kept it
             */
            since: string | null;
            /**
             * Since Step
             * @description optimizer steps done at that time
             */
            since_step: number | null;
            /**
             * Step
             * @description optimizer steps done when it was looked at
             */
            step: number;
            /**
             * Threshold
             * @description what is expected; empty where anything is fine
             */
            threshold: string;
            /** Title */
            title: string;
            verdict: components["schemas"]["Verdict"];
        };
        /**
         * RunChecks
         * @description The checklist of a run.
         */
        RunChecks: {
            /** Checks */
            checks: components["schemas"]["RunCheck"][];
            /** Run Id */
            run_id: string;
            state: components["schemas"]["RunState"];
            /** @description that of the worst check */
            verdict: components["schemas"]["Verdict"];
        };
        /**
         * RunDetail
         * @description One run with all that is known of it.
         */
        RunDetail: {
            /**
             * Archived At
             * @description since when it is put away
             */
            archived_at?: string | null;
            /**
             * Asked
             * @description the spec as it was sent; null for runs from before that was kept
             */
            asked?: unknown;
            /** @description what ended a run that did not end by itself */
            cause: components["schemas"]["Cause"] | null;
            /** Checkpoints */
            checkpoints: components["schemas"]["Checkpoint"][];
            /**
             * Cloned From
             * @description the run whose spec it started from
             */
            cloned_from?: string | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Device */
            device: string | null;
            /**
             * Duration S
             * @description seconds that it has had a worker, over all its lives, on a clock that nobody sets; of a live run until it last told something
             */
            duration_s?: number | null;
            /** Ended At */
            ended_at: string | null;
            /**
             * Exit Status
             * @description exit code of its worker, negative for a signal, where it is known
             */
            exit_status: number | null;
            /**
             * Held
             * @description whether it keeps its place in the queue without starting
             * @default false
             */
            held?: boolean;
            /** Id */
            id: string;
            /**
             * Knobs
             * @description value in force of each knob; null where it is decided when the model is built
             */
            knobs: {
                [key: string]: number | string | null;
            };
            /**
             * Knobs Version
             * @description number of the newest change of a knob; to be sent as If-Match
             */
            knobs_version: number;
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
            /**
             * Queue Device
             * @description the device whose queue it belongs to
             * @default cpu
             */
            queue_device?: string;
            /**
             * Queue Position
             * @description place in that queue, from 1; null unless queued
             */
            queue_position?: number | null;
            /** Reason */
            reason: string;
            /**
             * Resumable
             * @description whether it has ended before its end, and goes on when it is resumed
             */
            resumable: boolean;
            /**
             * Segments
             * @description what each of its workers did, in order
             */
            segments?: components["schemas"]["Segment"][];
            /**
             * Sparkline
             * @description at most 32 losses, evenly spaced over the run
             */
            sparkline: (number | null)[];
            /**
             * Spec
             * @description with every default filled in
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
             * Time
             * Format: date-time
             * @description the server's clock; as `since`, it brings what changed after it
             */
            time: string;
            /**
             * Type
             * @default run
             * @constant
             */
            type?: "run";
        };
        /**
         * RunGone
         * @description A frame of the stream over all runs: one that was deleted.
         */
        RunGone: {
            /** Id */
            id: string;
            /**
             * Time
             * Format: date-time
             */
            time: string;
            /**
             * Type
             * @default gone
             * @constant
             */
            type?: "gone";
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
         * Segment
         * @description One worker's part of a run, from its start or a resumption to its end.
         */
        Segment: {
            /** Ended At */
            ended_at: string | null;
            /**
             * First Step
             * @description first optimizer step it did; null while none is known
             */
            first_step: number | null;
            /**
             * Last Step
             * @description last optimizer step it did; null while it runs, and where it did none
             */
            last_step: number | null;
            /**
             * Number
             * @description counted from 1
             */
            number: number;
            /** Reason */
            reason: string;
            /**
             * Started At
             * Format: date-time
             */
            started_at: string;
            /** @description how it ended; null while it runs */
            state: components["schemas"]["RunState"] | null;
            /**
             * Void After
             * @description a later segment did the steps behind this one again; null: none did
             */
            void_after: number | null;
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
            /**
             * Superseded
             * @description where asked for: what was measured before it was done again
             */
            superseded?: components["schemas"]["SupersededSeries"][];
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
         * SpecDifference
         * @description One key of the spec that is not the same in all runs.
         */
        SpecDifference: {
            /**
             * Key
             * @description dotted key, for example offload.policy
             */
            key: string;
            /**
             * Values
             * @description run id -> value; a run whose spec has no such key is left out
             */
            values: {
                [key: string]: unknown;
            };
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
            /**
             * Who
             * @description browser, api, command line, python client (or what a client calls itself), server or worker; empty in what was recorded before this was
             * @default
             */
            who?: string;
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
        StreamFrame: (components["schemas"]["StateFrame"] | components["schemas"]["MetricsFrame"] | components["schemas"]["LogFrame"] | components["schemas"]["FactFrame"] | components["schemas"]["CheckpointFrame"] | components["schemas"]["SampleFrame"] | components["schemas"]["KnobFrame"] | components["schemas"]["CheckFrame"]) | components["schemas"]["SnapshotFrame"];
        /**
         * SupersededSeries
         * @description What a segment measured of steps that a later one did again.
         */
        SupersededSeries: {
            /** Segment */
            segment: number;
            /** Series */
            series: {
                [key: string]: components["schemas"]["Series"];
            };
        };
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
        /**
         * UndoBody
         * @description Which change of a knob is taken back.
         */
        UndoBody: {
            /**
             * Number
             * @description the newest that was not taken back, where left out
             */
            number?: number | null;
        };
        /**
         * Verdict
         * @description How a check came out; the later word is the worse one.
         * @enum {string}
         */
        Verdict: "unknown" | "ok" | "warning" | "problem";
    };
    responses: {
        /** @description Address or body can't be read */
        400: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:bad-request",
                 *       "title": "Bad Request",
                 *       "status": 400,
                 *       "detail": "There was an error parsing the body",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The server wants a token, and this is none */
        401: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:token-needed",
                 *       "title": "A token is needed",
                 *       "status": 401,
                 *       "detail": "send the header Authorization: Bearer TOKEN; the server printed the token when it was made",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The request names another host, or comes from a page of another site */
        403: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:origin-refused",
                 *       "title": "The request was refused",
                 *       "status": 403,
                 *       "detail": "the request comes from a page of another site",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description There is nothing of this name */
        404: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:run-not-found",
                 *       "title": "No such run",
                 *       "status": 404,
                 *       "detail": "there is no run 'x'",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The client has left */
        408: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:request-timeout",
                 *       "title": "Request Timeout",
                 *       "status": 408,
                 *       "detail": "the client has left",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The run's state does not allow it */
        409: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:run-not-live",
                 *       "title": "The run is not live",
                 *       "status": 409,
                 *       "detail": "run 20260131-120000-a1b2c3 is finished: there is nothing to stop",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description It has changed since */
        412: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:version-changed",
                 *       "title": "It has changed meanwhile",
                 *       "status": 412,
                 *       "detail": "it is at version 4; 3 was sent",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The body is too large */
        413: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:content-too-large",
                 *       "title": "Content Too Large",
                 *       "status": 413,
                 *       "detail": "",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Path or query are too long */
        414: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:address-too-long",
                 *       "title": "The request was refused",
                 *       "status": 414,
                 *       "detail": "path and query may have 8192 bytes each",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The body is not JSON */
        415: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:not-json",
                 *       "title": "The request was refused",
                 *       "status": 415,
                 *       "detail": "a body must be JSON: send the header Content-Type: application/json",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description A value makes no sense; `errors` names the fields */
        422: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:spec-refused",
                 *       "title": "The spec can't run",
                 *       "status": 422,
                 *       "detail": "training.learning_rate: should be greater than 0",
                 *       "errors": [
                 *         {
                 *           "field": "training.learning_rate",
                 *           "message": "should be greater than 0",
                 *           "fix": ""
                 *         }
                 *       ]
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description If-Match is missing */
        428: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:version-needed",
                 *       "title": "The version is needed",
                 *       "status": 428,
                 *       "detail": "send If-Match with the version you saw",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Too many wrong tokens */
        429: {
            headers: {
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:too-many-tries",
                 *       "title": "Too many tries",
                 *       "status": 429,
                 *       "detail": "10 different wrong tokens came; wait 12 s",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description The server made a mistake */
        500: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:internal-error",
                 *       "title": "The server made a mistake",
                 *       "status": 500,
                 *       "detail": "RuntimeError; the server's log has the trace",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description It can't be done now */
        503: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "horizon:database-busy",
                 *       "title": "The database is held by another process",
                 *       "status": 503,
                 *       "detail": "another process holds the database; try again when it has finished",
                 *       "errors": []
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
