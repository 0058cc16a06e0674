package cm

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // of the error
	}{
		{"good", []string{"-n", "7"}, ""},
		{"unknown flag", []string{"-x"}, "unknown shorthand flag"},
		{"argument", []string{"here"}, `"here": no arguments beside the flags`},
		{"below", []string{"-n", "0"}, "-n 0: want 1 to 9"},
		{"above", []string{"-n", "10"}, "-n 10: want 1 to 9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Flags("prog")
			n := f.IntP("number", "n", 1, "a `number`")
			err := Parse(f, tt.args, "prog [options]\n", func() error { return Within("-n", *n, 1, 9) })
			var usage *UsageError
			switch {
			case tt.want == "" && (err != nil || *n != 7):
				t.Errorf("%v, n = %d", err, *n)
			case tt.want != "" && (!errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	f := Flags("prog")
	f.IntP("number", "n", 1, "a `number`")
	var help *HelpError
	if err := Parse(f, []string{"-h"}, "prog [options]\n", nil); !errors.As(err, &help) || !strings.HasPrefix(help.Text,
		"prog [options]\n\n  -n, --number number") {
		t.Errorf("-h: %v %+v", err, help)
	}
}

func TestPayload(t *testing.T) {
	b := make([]byte, 1000)
	Fill(b, 3)
	if err := Check(b, 3); err != nil {
		t.Error(err)
	}
	var wrong *PayloadError
	if err := Check(b, 4); !errors.As(err, &wrong) || wrong.Offset != 0 {
		t.Errorf("another message: %v", err)
	}
	for i := range b {
		b[i] ^= 0x10
		if err := Check(b, 3); !errors.As(err, &wrong) || wrong.Offset != i || wrong.Got != b[i] ||
			wrong.Want != b[i]^0x10 {
			t.Fatalf("byte %d: %v", i, err)
		}
		b[i] ^= 0x10
	}
}

func TestAddresses(t *testing.T) {
	const (
		nothing = "0000000000000000000000000000000000000000"
		// 10.8.0.2 to 10.8.0.1, UDP, with a right checksum.
		v4   = "450000640000400040112677" + "0a080002" + "0a080001"
		v6   = "6000000000541140" + "fe80000000000000000000000000000a" + "fe80000000000000000000000000000b"
		grh  = "6000000000541b40" + "fe80000000000000000000000000000a" + "fe80000000000000000000000000000b"
		from = "fe80::a"
		to   = "fe80::b"
	)
	for _, tt := range []struct {
		name, header string
		from, to     string
		typ          ibv.GIDType
		want         string // of the error
	}{
		{"IPv4", nothing + v4, "::ffff:10.8.0.2", "::ffff:10.8.0.1", ibv.GIDTypeRoCEv2, ""},
		{"IPv6", v6, from, to, ibv.GIDTypeRoCEv2, ""},
		{"GRH", grh, from, to, ibv.GIDTypeIB, ""},
		{"IPv4 without a checksum", nothing + strings.Replace(v4, "2677", "0000", 1), "::ffff:10.8.0.2",
			"::ffff:10.8.0.1", ibv.GIDTypeRoCEv2, ""},
		{"IPv4 behind what looks like a GRH", "60" + nothing[2:] + v4, "::ffff:10.8.0.2", "::ffff:10.8.0.1",
			ibv.GIDTypeRoCEv2, ""},
		{"GRH that looks like IPv4", "6000000000541b40" + "fe80000000000000000000004500000a" +
			"fe80000000000000000000000000000b", "fe80::4500:a", to, ibv.GIDTypeIB, ""},
		{"nothing", nothing + nothing, "", "", 0, "neither IPv4's nor a GRH"},
		{"short", nothing, "", "", 0, "a header of 20 bytes, want 40"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header, err := hex.DecodeString(tt.header)
			if err != nil {
				t.Fatal(err)
			}
			f, to, typ, err := addresses(header)
			if tt.want != "" {
				var e *HeaderError
				if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if err != nil || f.String() != tt.from || to.String() != tt.to || typ != tt.typ {
				t.Errorf("%v → %v, %v, %v", f, to, typ, err)
			}
		})
	}
}
