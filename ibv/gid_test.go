package ibv

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
)

func TestParseGID(t *testing.T) {
	tests := []struct{ in, short, full string }{
		{"fe80::1", "fe80::1", "fe80:0000:0000:0000:0000:0000:0000:0001"},
		{"fe80:0000:0000:0000:0a52:00ff:fe12:3456", "fe80::a52:ff:fe12:3456",
			"fe80:0000:0000:0000:0a52:00ff:fe12:3456"},
		{"0000:0000:0000:0000:0000:ffff:0a08:0001", "::ffff:10.8.0.1", "0000:0000:0000:0000:0000:ffff:0a08:0001"},
		{"::ffff:10.8.0.1", "::ffff:10.8.0.1", "0000:0000:0000:0000:0000:ffff:0a08:0001"},
		{"::FFFF:0A08:1", "::ffff:10.8.0.1", "0000:0000:0000:0000:0000:ffff:0a08:0001"},
		{"2001:db8::", "2001:db8::", "2001:0db8:0000:0000:0000:0000:0000:0000"},
		{"::", "::", "0000:0000:0000:0000:0000:0000:0000:0000"},
		{"ff12:401b:ffff::1", "ff12:401b:ffff::1", "ff12:401b:ffff:0000:0000:0000:0000:0001"},
	}
	for _, tt := range tests {
		g, err := ParseGID(tt.in)
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if g.String() != tt.short || g.Full() != tt.full {
			t.Errorf("%q: %q and %q, want %q and %q", tt.in, g, g.Full(), tt.short, tt.full)
		}
		for _, s := range []string{g.String(), g.Full()} {
			if back, err := ParseGID(s); err != nil || back != g {
				t.Errorf("%q does not come back: %v, %v", s, back, err)
			}
		}
	}
}

func TestParseGID_Bad(t *testing.T) {
	for _, in := range []string{"", ":", "10.8.0.1", "fe80::1%eth0", "fe80::1::2", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
		"g::", " fe80::1", "fe80::1\n",
		"fe80:00000::1", strings.Repeat("f", 1<<20)} {
		g, err := ParseGID(in)
		var arg *ArgError
		if !errors.As(err, &arg) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%.20q gives %v, %v", in, g, err)
		} else if len(err.Error()) > 200 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	}
}

func TestGID_Kinds(t *testing.T) {
	tests := []struct {
		gid                            string
		zero, mapped, linkLocal, multi bool
		addr                           string
	}{
		{"::", true, false, false, false, "::"},
		{"fe80::1", false, false, true, false, "fe80::1"},
		{"febf::1", false, false, true, false, "febf::1"},
		{"fec0::1", false, false, false, false, "fec0::1"},
		{"::ffff:10.8.0.1", false, true, false, false, "10.8.0.1"},
		{"::ffff:169.254.3.4", false, true, true, false, "169.254.3.4"},
		{"::ffff:224.0.0.5", false, true, false, true, "224.0.0.5"},
		{"::ffff:0.0.0.0", false, true, false, false, "0.0.0.0"},
		{"ff12::1", false, false, false, true, "ff12::1"},
		{"2001:db8::1", false, false, false, false, "2001:db8::1"},
	}
	for _, tt := range tests {
		g, err := ParseGID(tt.gid)
		if err != nil {
			t.Fatal(err)
		}
		if g.IsZero() != tt.zero || g.IsIPv4Mapped() != tt.mapped || g.IsLinkLocal() != tt.linkLocal ||
			g.IsMulticast() != tt.multi || g.Addr().String() != tt.addr {
			t.Errorf("%s: zero %v, mapped %v, link-local %v, multicast %v, addr %v", tt.gid, g.IsZero(),
				g.IsIPv4Mapped(), g.IsLinkLocal(), g.IsMulticast(), g.Addr())
		}
		if tt.gid != "::" && GIDFromAddr(g.Addr()) != g {
			t.Errorf("%s does not come back from %v", tt.gid, g.Addr())
		}
	}
	if !GIDFromAddr(netip.Addr{}).IsZero() {
		t.Error("the zero Addr has no GID")
	}
	if g := GIDFromAddr(netip.MustParseAddr("fe80::1%lo")); g.String() != "fe80::1" {
		t.Errorf("a zone gives %v", g)
	}
	g, _ := ParseGID("fe80:0:0:1:0a52:00ff:fe12:3456")
	if g.SubnetPrefix() != 0xfe80000000000001 || g.InterfaceID() != 0x0a5200fffe123456 {
		t.Errorf("halves %#x %v", g.SubnetPrefix(), g.InterfaceID())
	}
}

func TestGUID(t *testing.T) {
	for in, want := range map[string]GUID{
		"0c42:a103:0065:1a2e": 0x0c42a10300651a2e,
		"0C42:A103:0065:1A2E": 0x0c42a10300651a2e,
		"0x0c42a10300651a2e":  0x0c42a10300651a2e,
		"0c42a10300651a2e":    0x0c42a10300651a2e,
		"0000:0000:0000:0000": 0,
		"ffff:ffff:ffff:ffff": ^GUID(0),
	} {
		g, err := ParseGUID(in)
		if err != nil || g != want {
			t.Errorf("%q: %v, %v", in, g, err)
		}
		if back, err := ParseGUID(g.String()); err != nil || back != g || len(g.String()) != 19 {
			t.Errorf("%v does not come back: %v, %v", g, back, err)
		}
	}
	for _, in := range []string{"", "0", "0c42:a103:0065", "0c42:a103:0065:1a2", "0c42:a103:0065:1a2e:",
		"0c42-a103-0065-1a2e", "g000:0000:0000:0000",
		"0c4:2a103:0065:1a2e", "0x0c42a10300651a2", "+c42a10300651a2e", "0_42a10300651a2e",
		strings.Repeat("0", 1<<16)} {
		if g, err := ParseGUID(in); !errors.Is(err, syscall.EINVAL) || len(err.Error()) > 200 {
			t.Errorf("%.20q gives %v, %v", in, g, err)
		}
	}
}

func TestGID_JSON(t *testing.T) {
	type pair struct {
		G GID
		N GUID
	}
	in := pair{GID{10: 0xff, 11: 0xff, 12: 10, 13: 8, 15: 1}, 0x0c42a10300651a2e}
	b, err := json.Marshal(in)
	if want := `{"G":"::ffff:10.8.0.1","N":"0c42:a103:0065:1a2e"}`; err != nil || string(b) != want {
		t.Fatalf("%s, %v; want %s", b, err, want)
	}
	var out pair
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("%+v, %v", out, err)
	}
	before := out
	if json.Unmarshal([]byte(`{"G":"nonsense"}`), &out) == nil ||
		json.Unmarshal([]byte(`{"N":"nonsense"}`), &out) == nil {
		t.Error("nonsense is taken")
	}
	if out != before {
		t.Errorf("nonsense leaves %+v", out)
	}
}

func FuzzParseGID(f *testing.F) {
	for _, s := range []string{"fe80::1", "::ffff:10.8.0.1", "1:2:3:4:5:6:7:8", "", "::%1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGID(s)
		if err != nil {
			return
		}
		for _, form := range []string{g.String(), g.Full()} {
			if back, err := ParseGID(form); err != nil || back != g {
				t.Errorf("%q: %q comes back as %v, %v", s, form, back, err)
			}
		}
	})
}
