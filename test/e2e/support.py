"""What the end-to-end scripts share: finding and running the tools within a time
limit, models as options of `sheaf-model`, and the record of what failed.

Every script takes the folder of the built programs as its argument, works in a
temporary folder, ends what it started, prints one line a check, and exits 1 if a
check failed, 2 if it was called wrongly.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir, "oracle"))

import models  # noqa: E402
import safetensors  # noqa: E402


class Failed(Exception):
    """A tool that had to succeed did not; the text has its command and output."""


class Session:
    """One script's tools, temporary folder, time limit and results."""

    def __init__(self, bin_dir, limit, keep):
        self.bin_dir = os.path.abspath(bin_dir)
        self.deadline = time.monotonic() + limit
        self.folder = tempfile.mkdtemp(prefix="sheaf-e2e-")
        self.keep = keep
        self.passed, self.failed = 0, []
        self.compiled = {}  # by text of the model and options: artifact and its explanation

    def path(self, name):
        return os.path.join(self.folder, name)

    def tool(self, name):
        path = os.path.join(self.bin_dir, name)
        if not os.access(path, os.X_OK):
            raise Failed(f"no program {name} in {self.bin_dir}")
        return path

    def try_run(self, name, *arguments, environment=None):
        """Runs a tool; returns (exit status, stdout, stderr)."""
        return self.try_command([self.tool(name), *map(str, arguments)], environment)

    def try_command(self, command, environment=None):
        """Runs any command; returns (exit status, stdout, stderr)."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failed("out of time before " + " ".join(command))
        # A group of its own, so that whatever the tool starts ends with it.
        process = subprocess.Popen(command, cwd=self.folder, text=True, errors="replace",
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        try:
            out, err = process.communicate(timeout=left)
        except subprocess.TimeoutExpired as error:
            raise Failed("out of time in " + " ".join(command)) from error
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        return process.returncode, out, err

    def run(self, name, *arguments, environment=None):
        """Runs a tool that has to succeed; returns its stdout."""
        status, out, err = self.try_run(name, *arguments, environment=environment)
        if status != 0:
            raise Failed(f"exit status {status} of {name} {' '.join(map(str, arguments))}\n"
                         + (err or out)[-3000:])
        return out

    def check(self, title, ok, detail=""):
        """Records one check; `ok` may be a Verdict, whose text is then shown."""
        text = detail or (str(ok) if not isinstance(ok, bool) else "")
        print(f"{'PASS' if ok else 'FAIL'}: {title}" + (f": {text}" if text else ""),
              flush=True)
        if ok:
            self.passed += 1
        else:
            self.failed.append(title)
        return bool(ok)

    def compile(self, model, output, *options):
        """Compiles a model; what was compiled before is a copy. Returns the path."""
        self.made(model, output, options)
        return self.path(output)

    def explain(self, model, output, *options):
        """Compiles a model; returns what --explain=json says."""
        return json.loads(self.made(model, output, options, ["--explain=json"]))

    def made(self, model, output, options, more=()):
        """An artifact, with the output of its compilation where `more` is asked for."""
        with open(self.path(model), "rb") as file:
            key = (file.read(), options)
        artifact, text = self.compiled.get(key, (self.path(f"compiled{len(self.compiled)}"), None))
        if text is None and (more or key not in self.compiled):
            text = self.run("sheaf-compile", self.path(model), "-o", artifact, *options, *more)
            self.compiled[key] = artifact, text if more else None
        shutil.copy(artifact, self.path(output))
        return text

    def train(self, artifact, *options):
        """Runs an artifact with a log; returns the log's lines as objects."""
        log = self.path("run.jsonl")
        if os.path.exists(log):
            os.remove(log)
        self.run("sheaf-run", artifact, f"--log={log}", *options)
        return read_log(log)


def read_log(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    steps = [line for line in lines if "loss" in line and "step" in line]
    if [line["step"] for line in steps] != list(range(len(steps))):
        raise Failed(f"steps of the log are {[line['step'] for line in steps]}")
    return steps


def config_json(model):
    """The Hugging Face config.json of a model of the oracle."""
    if isinstance(model, models.GPT):
        return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
                "activation_function": "gelu_new", "n_layer": model.layers,
                "n_embd": model.hidden, "n_head": model.heads, "n_inner": model.ffn,
                "n_positions": model.seq, "n_ctx": model.seq, "vocab_size": model.vocab,
                "layer_norm_epsilon": model.eps, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
                "resid_pdrop": 0.0, "tie_word_embeddings": True}
    scaling = model.rope_scaling and {"rope_type": "llama3", **model.rope_scaling}
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
            "hidden_act": "silu", "num_hidden_layers": model.layers,
            "hidden_size": model.hidden, "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads, "head_dim": model.head_dim,
            "intermediate_size": model.ffn, "vocab_size": model.vocab,
            "max_position_embeddings": max(model.seq, 128), "rms_norm_eps": model.eps,
            "rope_theta": model.theta, "rope_scaling": scaling, "attention_bias": False,
            "mlp_bias": False, "tie_word_embeddings": model.tied}


def write_model(session, model, batch, output, from_config=False):
    """Writes a model's IR with `sheaf-model`, by options or by a config.json."""
    family = "gpt" if isinstance(model, models.GPT) else "llama"
    options = [f"--seq={model.seq}", f"--batch={batch}"]
    if from_config:
        config = session.path("config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(config_json(model), file, indent=1)
        options.append(f"--hf-config={config}")
    else:
        options += [f"--layers={model.layers}", f"--hidden={model.hidden}",
                    f"--heads={model.heads}", f"--ffn={model.ffn}",
                    f"--vocab={model.vocab}"]
        if family == "llama":
            options.append(f"--kv-heads={model.kv_heads}")
    session.run("sheaf-model", family, *options, "-o", session.path(output))


def initial_values(session, artifact, seed):
    """What `--steps=0 --save` writes, read strictly."""
    path = session.path("initial.safetensors")
    session.run("sheaf-run", artifact, "--steps=0", f"--seed={seed}", f"--save={path}")
    return safetensors.read(path)


def main(description, body, limit, options=()):
    """Runs `body(session, arguments)`; returns the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("bin_dir", help="folder of sheaf-compile and the other programs")
    parser.add_argument("--limit", type=float, default=limit,
                        help="seconds after which the test fails (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    for flags, settings in options:
        parser.add_argument(flags, **settings)
    arguments = parser.parse_args()
    # So that the tools and the folder go, too, when the test is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    session = Session(arguments.bin_dir, arguments.limit, arguments.keep)
    try:
        body(session, arguments)
    except (Failed, safetensors.FormatError, OSError, ValueError, KeyError) as error:
        session.check("the run", False, f"{type(error).__name__}: {error}")
    finally:
        if session.keep:
            print(f"kept {session.folder}")
        else:
            shutil.rmtree(session.folder, ignore_errors=True)
    print(f"{session.passed} passed, {len(session.failed)} failed")
    return 1 if session.failed or not session.passed else 0
