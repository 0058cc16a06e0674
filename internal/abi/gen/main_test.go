package main

import (
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/gotext"
)

// TestGenerated fails if structs.txt, testdata/abi or a use of a constant changed, and the files did not.
func TestGenerated(t *testing.T) {
	if err := gotext.Stale("../../..", 12, generate); err != nil {
		t.Error(err)
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"ibv_sge", "has no Go name"},
		{"\tpart", "begins with an indented line"},
		{"ibx_sge SGE", "no header is known"},
		{"ibv_sgx SGE", "layout-v65.json lacks it"},
		{"ibv_wc WC", "lies on another field"},
		{"ibv_device Device -_ops", "name has 64 bytes: write name:Type"},
		{"ibv_sge SGE lkey:uint32=LocalKey addrr*", "it has no field addrr"},
	} {
		g := newGenerator("../../..")
		entries, err := parse(tt.text + "\n")
		for _, e := range entries {
			if err == nil {
				err = g.add(e)
			}
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestStruct(t *testing.T) {
	g := newGenerator("../../..")
	entries, err := parse("ibv_global_route GlobalRoute dgid:GID=To\n\t# More.\n\tdgid # big-endian\n")
	if err == nil {
		err = g.add(entries[0])
	}
	const want = `// GlobalRoute is struct ibv_global_route (infiniband/verbs.h, rdma-core v65). More.
type GlobalRoute struct {
_ structs.HostLayout
_ [0]uint64 // the alignment in C
To GID // big-endian
FlowLabel uint32
SGIDIndex uint8
HopLimit uint8
TrafficClass uint8
_ [1]byte
}

`
	if got := g.structs.String(); err != nil || got != want {
		t.Errorf("%s, error %v, want\n%s", got, err, want)
	}
}

func TestEnum(t *testing.T) {
	values := map[string]int64{"X_ONE": 1, "X_IP_ADDR": 2}
	all, err := parseEnums("# About.\npackage a/b c\n\nKind uint32 Of X_ # Kind is\n\t# a kind. C: enum x.\n"+
		"\tONE IP_ADDR=Address \"an address\" # OfAddress has\n\t\t# two lines. Experimental: yes.\n"+
		"\t.More=4 -Gone=5\n", values)
	if err != nil {
		t.Fatal(err)
	}
	const want = `package b

import "github.com/pureverbs/pureverbs/internal/flags"

// Kind is a kind.
//
// C: enum x.
type Kind uint32

const (
OfOne Kind = 1 // C: X_ONE.
// OfAddress has two lines. C: X_IP_ADDR.
//
// Experimental: yes.
OfAddress Kind = 2
OfMore Kind = 4
)

var kindNames = []string{1: "One", "an address", 4: "More", "Gone", }

// String returns the name, as in "More".
func (v Kind) String() string {
return flags.Name("Kind", int64(v), kindNames)
}
`
	if got := enumFile("a/b/c_gen.go", all["a/b/c_gen.go"]); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	all, err = parseEnums("package p\n\nF uint8 - X_ flags # F are flags.\n\tONE .Set=6\n", values)
	if err != nil {
		t.Fatal(err)
	}
	got := enumFile("p/enums_gen.go", all["p/enums_gen.go"])
	for _, want := range []string{"One F = 1 << 0 // C: X_ONE.", "Set F = 0x6\n", "[]string{\"One\", }",
		"flags.String(v, fNames)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for text, want := range map[string]string{
		"K uint8 - X_":                              "enums.txt:1: want TYPE",
		"package p\nK uint8":                        "enums.txt:2: want TYPE",
		"package p\n\tONE":                          "enums.txt:2: no type",
		"package p\nK uint8 - X_ # K.\n\tTWO":       "enums.txt:3: TWO has no value",
		"package p\nK uint8 - X_ # K.\n\tONE (a)":   "enums.txt:3: no constant is (a)",
		"package p\nK uint8 - X_ # K.\n\t.Two=0xg":  "enums.txt:3: ",
		"package p\nK uint8 - X_ # K.\n\t.Two=9999": "enums.txt:3: .Two=9999 is too large",
	} {
		if _, err := parseEnums(text, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
