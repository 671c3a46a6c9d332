"""A session of an editor with the language server: session.py SERVER. Prints each answer
that a test reads, under a title."""

import json
import subprocess
import sys

TEXT = """\
dist.mesh @mesh ["dp" = 2 memory]
func.func @layer(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %h = nn.einsum "be,ef->bf"(%x, %w) {dist.shardings = [#dist.sharding<[{"dp"}, {}]>]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = nn.relu %h : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %y = call @layer(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


class Session:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.count = 0
        self.document = {"uri": "file:///model.mlir"}
        self.version = 0

    def send(self, message):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def read(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.startswith(b"Content-Length:"):
                length = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(length))

    def request(self, method, **params):
        self.count += 1
        self.send({"id": self.count, "method": method, "params": params})
        while (answer := self.read()).get("id") != self.count:
            pass
        return answer.get("result")

    def notify(self, method, **params):
        self.send({"method": method, "params": params})

    def show(self, text):
        """Opens or changes the document; the diagnostics that come back."""
        self.version += 1
        document = {**self.document, "version": self.version}
        if self.version == 1:
            self.notify("textDocument/didOpen",
                        textDocument={**document, "languageId": "mlir", "text": text})
        else:
            self.notify("textDocument/didChange", textDocument=document,
                        contentChanges=[{"text": text}])
        while (answer := self.read()).get("method") != "textDocument/publishDiagnostics":
            pass
        return answer["params"]["diagnostics"]

    def at(self, method, text, needle, offset=0):
        """A request on the place where `needle` first stands."""
        start = text.index(needle) + offset
        line = text.count("\n", 0, start)
        column = start - (text.rfind("\n", 0, start) + 1)
        return self.request("textDocument/" + method, textDocument=self.document,
                            position={"line": line, "character": column},
                            context={"triggerKind": 1, "includeDeclaration": True})


def main():
    session = Session(sys.argv[1:])
    server = session.request("initialize", processId=1, capabilities={}, trace="off")
    print("CAPABILITIES", json.dumps(server["capabilities"], sort_keys=True))
    print("OPENED WITH", session.show(TEXT))
    for title, needle, offset in (("OP", "nn.relu", 4), ("VALUE", "%h :", 1),
                                  ("ARGUMENT", "%x, %w) {", 1), ("ATTRIBUTE", "#dist.sharding", 3)):
        print("HOVER", title, session.at("hover", TEXT, needle, offset)["contents"]["value"],
              "HOVER-END")
    print("NOTHING", session.at("hover", TEXT, "%y = call", 3))
    print("DEFINITION", json.dumps(session.at("definition", TEXT, "@layer(%x, %w)", 2)))
    print("REFERENCES", len(session.at("references", TEXT, "%h = ", 1)))

    print("WRONG", json.dumps(session.show(TEXT.replace("nn.relu %h : tensor<4x8xf32>",
                                                        "nn.relu %h : tensor<4x8xi32>"))))
    partial = TEXT.replace("nn.relu %h : tensor<4x8xf32>", "nn.")
    session.show(partial)
    for item in session.at("completion", partial, "nn.\n", 3)["items"]:
        if item["label"] == "softmax":
            print("COMPLETION", item["detail"], json.dumps(item["documentation"]["value"]))
    partial = TEXT.replace("#dist.sharding<", "#dist.", 1)
    session.show(partial)
    for item in session.at("completion", partial, "#dist.", 6)["items"]:
        if item["label"] == "axis":
            print("COMPLETION", json.dumps(item["documentation"]["value"]))

    print("SHUTDOWN", session.request("shutdown"))
    session.notify("exit")
    print("EXIT", session.process.wait(20))


if __name__ == "__main__":
    main()
