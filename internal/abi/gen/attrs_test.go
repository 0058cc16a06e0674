package main

import (
	"go/format"
	"strings"
	"testing"
)

func TestAttrs(t *testing.T) {
	all, err := parseAttrs("# About.\npackage p\n\nQPAttr X # QPAttr has\n\t# attributes. C: struct x.\n" +
		"\tName string # that\n\t\t# of x\n\tOn bool IsOn\n\tID GUID GUID(c.ID.Get())\n\tFlat Part .\n" +
		"\tDeep Part Inner\n\tOwn *Part -\n\tWait time.Duration\n\nPart # Part is a part.\n\tN int MaxN\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := format.Source([]byte(attrFile("p/attrs_gen.go", all["p/attrs_gen.go"])))
	const want = `package p

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"time"
)

// QPAttr has attributes.
//
// C: struct x.
type QPAttr struct {
	Name string // that of x
	On   bool
	ID   GUID
	Flat Part
	Deep Part
	Own  *Part
	Wait time.Duration
}

// Part is a part.
type Part struct {
	N int
}

func qpAttrFromC(c *abi.X) *QPAttr {
	return &QPAttr{
		Name: cString(c.Name[:]),
		On:   c.IsOn != 0,
		ID:   GUID(c.ID.Get()),
		Flat: Part{
			N: int(c.MaxN),
		},
		Deep: Part{
			N: int(c.Inner.MaxN),
		},
		Wait: time.Duration(c.Wait),
	}
}
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	for text, want := range map[string]string{
		"package p\n\tName string":      "attrs.txt:2: no type",
		"package p\nQPAttr X\n\tName\n": "attrs.txt:3: Name has no type",
	} {
		if _, err := parseAttrs(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
