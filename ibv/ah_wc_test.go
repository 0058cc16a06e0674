package ibv

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestParseGRH(t *testing.T) {
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
		v2           bool
		want         string // of the error
	}{
		{"IPv4", nothing + v4, "::ffff:10.8.0.2", "::ffff:10.8.0.1", true, ""},
		{"IPv6", v6, from, to, true, ""},
		{"GRH", grh, from, to, false, ""},
		{"IPv4 without a checksum", nothing + strings.Replace(v4, "2677", "0000", 1), "::ffff:10.8.0.2",
			"::ffff:10.8.0.1", true, ""},
		{"IPv4 behind what looks like a GRH", "60" + nothing[2:] + v4, "::ffff:10.8.0.2", "::ffff:10.8.0.1",
			true, ""},
		{"GRH that looks like IPv4", "6000000000541b40" + "fe80000000000000000000004500000a" +
			"fe80000000000000000000000000000b", "fe80::4500:a", to, false, ""},
		{"nothing", nothing + nothing, "", "", false, "IP versions 0 and 0"},
		{"short", nothing, "", "", false, "20 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header, err := hex.DecodeString(tt.header)
			if err != nil {
				t.Fatal(err)
			}
			g, err := ParseGRH(header)
			if tt.want != "" {
				var e *ArgError
				if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if err != nil || g.From.String() != tt.from || g.To.String() != tt.to || g.RoCEv2 != tt.v2 {
				t.Errorf("%+v, %v", g, err)
			}
		})
	}
}
