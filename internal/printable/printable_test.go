package printable

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"
)

// Hostile is a name that nobody should be able to give a terminal.
const hostile = "e\x1b[2J\x7f\u0085\u009b\u202e\u2066\u200b\x9bth\U000e0001\n\t"

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "mlx5_0": "mlx5_0", "ü 端口": "ü 端口", `a"b\c`: `a"b\c`,
		"a\x7f": `"a\x7f"`, "a\u0085": `"a\u0085"`, "a\u202eb": `"a\u202eb"`, "a\x9b": `"a\x9b"`, "a\n": `"a\n"`,
		"a\tb": `"a\tb"`,
	} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	for in, want := range map[string]string{"": "", "no device \"x\"": "no device \"x\"",
		"a\x1b[2J\u009b\u202eb\x9b": `a\x1b[2J\u009b\u202eb\x9b`} {
		if got := Message(in); got != want {
			t.Errorf("Message(%q) = %s, want %s", in, got, want)
		}
	}
	for _, r := range Message(hostile) + Name(hostile) {
		if !unicode.IsPrint(r) {
			t.Errorf("%q is left", r)
		}
	}
}

func TestJSON(t *testing.T) {
	in, err := json.MarshalIndent(map[string]string{"name": hostile, "more": "<&>\u2028"}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	out := JSON(in)
	for _, r := range string(out) {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			t.Errorf("%q is left in %s", r, out)
		}
	}
	var a, b map[string]string
	if err := json.Unmarshal(in, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &b); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if a["name"] != b["name"] || a["more"] != b["more"] {
		t.Errorf("have %q, want %q", b, a)
	}
}

func TestWriteJSON(t *testing.T) {
	for indent, want := range map[string]string{
		"":   "{\n\"a\": \"<&>\\u001b\\u009b\",\n\"b\": {}\n}\n",
		"  ": "{\n  \"a\": \"<&>\\u001b\\u009b\",\n  \"b\": {}\n}\n",
	} {
		var out strings.Builder
		err := WriteJSON(&out, map[string]any{"a": "<&>\x1b\u009b", "b": struct{}{}}, indent)
		if err != nil || out.String() != want {
			t.Errorf("%v, %q, want %q", err, out.String(), want)
		}
	}
	if err := WriteJSON(io.Discard, func() {}, ""); err == nil {
		t.Error("a function was written")
	}
}
