package litmus

import (
	"strings"
	"testing"
)

// code is the disassembly of functions: lines of text, the first of which has the name.
func code(m Model, functions ...string) Code {
	c := Code{}
	addr := uint64(0x100)
	for _, f := range functions {
		lines := strings.Split(f, "\n")
		for _, l := range lines[1:] {
			c[lines[0]] = append(c[lines[0]], Instruction{"f.go:1", addr, l})
			if addr++; m == ARM64 {
				addr += 3
			}
		}
	}
	return c
}

func TestPaths(t *testing.T) {
	places := []Place{
		{Name: "x", Path: "a0+8", Val: 1},
		{Name: "y", Path: "*(a0+16)+4", Val: 2},
		{Name: "z", Path: "~*(a0+24)", Val: 3},
	}
	for _, tt := range []struct {
		name  string
		model Model
		code  []string
		want  string // the ways
	}{
		{"stores", ARM64, []string{"f\nMOVD 16(R0), R1\nMOVW R2, 8(R0)\nDMB $2\nMOVW R2, 4(R1)\nRET"},
			"W x=1; DMB OSHST; W y=2"},
		{"unknown places", ARM64, []string{"f\nMOVW R2, 12(R0)\nMOVW R2, 8(R1)\nRET"}, ""},
		{"sums", ARM64, []string{"f\nADD $12, R0, R3\nSUB $4, R3, R3\nSTLRW R2, (R3)\nRET"}, "STLR x=1"},
		{"index", ARM64, []string{"f\nMOVD 24(R0), R3\nADD R1<<6, R3, R3\nMOVB R2, 63(R3)\nRET"}, "W z=3"},
		{"pairs", ARM64, []string{"f\nLDP 16(R0), (R3, R4)\nMOVD (R4), R5\nMOVD R5, 4(R3)\nRET"}, "R z; W y=2"},
		{"branch", ARM64, []string{"f\nMOVD 8(R0), R1\nCBZ R1, 2(PC)\nDSB $14\nMOVD R2, 8(R0)\nRET"},
			"R x; B x#0==-1; DSB ST; W x=1|R x; B x#0==-1; W x=1"},
		{"loop", ARM64, []string{"f\nDMB $1\nSUB $1, R1, R1\nCBNZ R1, -2(PC)\nRET"},
			"DMB OSHLD|DMB OSHLD; DMB OSHLD"},
		{"call by registers", ARM64, []string{"f\nCALL m/p.g(SB)\nMOVD R1, 8(R0)\nRET", "p.g\nDMB $3\nRET"},
			"DMB OSH; W x=1"},
		{"call by the stack", ARM64, []string{"f\nMOVD.W R30, -32(RSP)\nMOVD 16(R0), R1\nMOVD R1, 8(RSP)\n" +
			"CALL m/p.g.abi0(SB)\nMOVD.P 32(RSP), R30\nRET", "p.g.abi0\nMOVD 8(RSP), R9\nMOVW ZR, 4(R9)\nRET"},
			"W y=2"},
		{"call by the stack", AMD64, []string{"f\nPUSHQ BP\nSUBQ $0x20, SP\nMOVQ 0x10(AX), CX\nMOVQ CX, 0(SP)\n" +
			"CALL m/p.g.abi0(SB)\nADDQ $0x20, SP\nPOPQ BP\nRET", "p.g.abi0\nMOVQ 0x8(SP), DX\nMOVL BX, 0x4(DX)\nRET"},
			"W y=2"},
		{"a way that grows the stack", AMD64, []string{"f\nCMPQ SP, 0x10(R14)\nJBE 0x104\nMOVL BX, 0x8(AX)\nRET\n" +
			"CALL runtime.morestack_noctxt.abi0(SB)\nJMP 0x100"}, "W x=1"},
		{"arithmetic on memory", AMD64, []string{"f\nADDL 0x8(AX), BX\nINCL 0x8(AX)\nRET"}, "R x; W x=1"},
		{"locked", AMD64, []string{"f\nLOCK CMPXCHGL BX, 0x8(AX)\nRET"}, "SWAP x=1"},
		{"locked", ARM64, []string{"f\nADD $8, R0, R2\nCASALW R1, (R2), R3\nRET"}, "SWAP x=1"},
		{"locked, before v8.1", ARM64, []string{"f\nADD $8, R0, R2\nLDAXRW (R2), R4\nCMPW R1, R4\nBNE 3(PC)\n" +
			"STLXRW R3, (R2), R5\nCBNZ R5, -4(PC)\nRET"}, "SWAP x=1|"},
		{"conditional moves", AMD64,
			[]string{"f\nCMPL 0x8(AX), BX\nCMOVNE CX, DX\nTESTQ DX, DX\nJE 0x105\nSFENCE\nRET"},
			"R x; B x#0==-1; SFENCE|R x; B x#0==-1"},
	} {
		t.Run(tt.name+" "+string(tt.model), func(t *testing.T) {
			ways, err := (&Reader{Code: code(tt.model, tt.code...), Model: tt.model, Places: places}).Paths("f")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range ways {
				got = append(got, w.String())
			}
			if a := strings.Join(got, "|"); a != tt.want {
				t.Errorf("%q, want %q", a, tt.want)
			}
		})
	}
}

// What the reader does not know is an error: a barrier that it would leave out is one that is not missed.
func TestPathsErrors(t *testing.T) {
	for _, tt := range []struct {
		model Model
		code  string
		want  string
	}{
		{ARM64, "f\nDMB $5\nRET", "an unknown barrier"},
		{AMD64, "f\nLFENCE\nRET", "an unknown barrier"},
		{ARM64, "f\nCALL m/p.g(SB)\nRET", "no p.g"},
		{ARM64, "f\nLDXRW (R0), R1\nRET", "does not order"},
		{ARM64, "f\nCASW R1, (R0), R2\nRET", "does not order"},
		{ARM64, "f\nSTTRW R1, (R0)\nRET", "does not know"},
		{AMD64, "f\nJMP 0x5000\nRET", "out of the function"},
		{AMD64, "f\nNOPL", "past its end"},
		{AMD64, "f\nCALL runtime.gopanic(SB)\nRET", "no end"},
	} {
		_, err := (&Reader{Code: code(tt.model, tt.code), Model: tt.model}).Paths("f")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.code, err, tt.want)
		}
	}
}
