package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerated fails if structs.txt, testdata/abi or a use of a constant changed, and the files did not.
func TestGenerated(t *testing.T) {
	files, err := generate("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Error("nothing is generated")
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what is generated: go generate ./internal/abi", name)
		}
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
