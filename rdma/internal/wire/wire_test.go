package wire

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		h    Header
		want string
	}{
		{Header{Kind: Data, Flags: FlagMore | FlagImm, Seq: 0x0201, Limit: 0x06050403, Length: 0x0a090807,
			Aux: 0x0e0d0c0b}, "\x00\x03\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e"},
		{Header{Kind: Ping, Flags: FlagIgnore}, "\x04\x04" + strings.Repeat("\x00", 14)},
	} {
		b := make([]byte, HeaderLen)
		c.h.Put(b)
		if string(b) != c.want || ParseHeader(b) != c.h {
			t.Errorf("%+v: % x, and back %+v", c.h, b, ParseHeader(b))
		}
	}
	if FIN.String() != "FIN" || Refuse.String() != "REFUSE" || Kind(17).String() != "frame kind 17" {
		t.Errorf("%v, %v, %v", FIN, Refuse, Kind(17))
	}
}

func TestNumbersWrap(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want bool
	}{{1, 2, true}, {2, 1, false}, {5, 5, false}, {1<<32 - 1, 0, true}, {0, 1<<32 - 1, false}, {1<<32 - 10, 20, true}} {
		if Before(c.a, c.b) != c.want {
			t.Errorf("Before(%d, %d) is %v", c.a, c.b, !c.want)
		}
	}
}

// TestCheck has frames that are wrong regardless of the connection's state.
func TestCheck(t *testing.T) {
	const ignored = "ignored"
	for _, c := range []struct {
		name   string
		h      Header
		bytes  uint32
		kind   ConnKind
		leases bool
		want   string
	}{
		{"the shortest", Header{}, 16, Messages, false, ""},
		{"a part of a header", Header{}, 15, Messages, false, "frame: got 15 bytes, want a header of 16"},
		{"nothing", Header{}, 0, Messages, false, "got 0 bytes"},
		{"a longer payload than announced", Header{Length: 7}, 24, Messages, false, "length of DATA: got 7, want 8"},
		{"a length beyond the frame", Header{Length: 1<<32 - 1}, 24, Messages, false, "length of DATA"},
		{"an unknown kind", Header{Kind: 99}, 16, Messages, true, "frame: got frame kind 99"},
		{"one to be ignored", Header{Kind: 99, Flags: 0xff, Length: 9}, 16, Messages, true, ignored},
		{"one to be ignored, and too short", Header{Kind: 99, Flags: FlagIgnore}, 3, Messages, true, "frame: got 3"},
		{"LEND without leases", Header{Kind: Lend, Length: 28}, 44, Messages, false, "frame: got LEND"},
		{"the same, to be ignored", Header{Kind: Lend, Flags: FlagIgnore}, 16, Messages, false, ignored},
		{"LEND", Header{Kind: Lend, Length: 28}, 44, Messages, true, ""},
		{"a short LEND", Header{Kind: Lend, Length: 27}, 43, Messages, true, "length of LEND: got 27, want 28"},
		{"a long REQUEST", Header{Kind: Request, Length: 17}, 33, Messages, true, "length of REQUEST: got 17, want 16"},
		{"REFUSE", Header{Kind: Refuse, Length: 4}, 20, Messages, true, ""},
		{"unknown flags", Header{Flags: 0x80}, 16, Messages, false, "flags of DATA: got 0x80, want known ones"},
		{"LOWER", Header{Kind: Limit, Flags: FlagLower}, 16, Stream, false, ""},
		{"LOWER in DATA", Header{Flags: FlagLower}, 16, Messages, false, "none about a lower limit"},
		{"LOWERED in FIN", Header{Kind: FIN, Flags: FlagLowered}, 16, Messages, false, "none about a lower limit"},
		{"PACKED", Header{Flags: FlagPacked}, 16, Messages, false, ""},
		{"PACKED in LIMIT", Header{Kind: Limit, Flags: FlagPacked}, 16, Messages, false, "PACKED in DATA only"},
		{"PACKED and MORE", Header{Flags: FlagPacked | FlagMore}, 16, Messages, false, "without MORE"},
		{"PACKED and IMM", Header{Flags: FlagPacked | FlagImm}, 16, Messages, false, "without MORE"},
		{"PACKED and CANCEL", Header{Flags: FlagPacked | FlagCancel}, 16, Messages, false, "without MORE"},
		{"MORE in a stream", Header{Flags: FlagMore}, 16, Stream, false, "flags of DATA: got 0x1, want none, in"},
		{"MAY-IGNORE in a stream", Header{Flags: FlagIgnore}, 16, Stream, false, ""},
	} {
		got := ""
		ignore, err := c.h.Check(c.bytes, c.kind, c.leases)
		if ignore {
			got = ignored
		} else if err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || ignore && err != nil {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%s: a %T", c.name, err)
		}
	}
}

// goodHello is a hello, and its bytes.
func goodHello() (Hello, string) {
	h := Hello{Min: 1, Max: 1, Kind: Stream, Flags: 3, Block: 32 << 10, Limit: 2, MaxMessage: 1 << 20}
	copy(h.App[:], "sixteen bytes.  ")
	return h, "PVR1\x01\x01\x02\x03\x00\x80\x00\x00\x02\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00sixteen bytes.  "
}

func TestHello(t *testing.T) {
	good, want := goodHello()
	b := good.Encode()
	if string(b) != want {
		t.Errorf("encoded %q, want %q", b, want)
	}
	padded := append(bytes.Clone(b), make([]byte, 16)...) // rdma_cm does
	if h, _, err := ParseHello(padded, Stream); err != nil || h != good {
		t.Errorf("%+v, %v", h, err)
	}
	for _, c := range []struct {
		name   string
		at     int
		with   string
		reason RejectReason
		want   string // "" if it is accepted
	}{
		{"a later version", 4, "\x02\x03", RejectVersion, "versions 2 to 3"},
		{"an earlier version", 4, "\x00\x00", RejectVersion, "versions 0 to 0"},
		{"a peer that also speaks later versions", 4, "\x01\x09", 0, ""},
		{"unknown flags", 7, "\xfb", 0, ""},
		{"a probe that is not there", 7, "\x07", RejectOther, "got 40 bytes, want 52 with a probe"},
		{"numbers in the place of 0", 20, "\x01\x02\x03\x04", 0, ""},
		{"another program", 0, "PVR2", RejectOther, "private data"},
		{"messages", 6, "\x01", RejectKind, "private data: got messages, want a stream"},
		{"kind 0", 6, "\x00", RejectKind, "connection kind 0"},
		{"blocks of 1,023 bytes", 8, "\xff\x03\x00", RejectOther, "block size: got 1023, want 1024 to 1048576"},
		{"blocks of 1 KiB", 8, "\x00\x04\x00", 0, ""},
		{"blocks of 1 MiB", 8, "\x00\x00\x10", 0, ""},
		{"larger blocks", 8, "\x01\x00\x10", RejectOther, "block size: got 1048577"},
		{"limit 1", 12, "\x01", RejectOther, "first limit: got 1, want 2 to 64"},
		{"limit 64", 12, "\x40", 0, ""},
		{"limit 65", 12, "\x41", RejectOther, "first limit: got 65"},
	} {
		p := bytes.Clone(b)
		copy(p[c.at:], c.with)
		_, reason, err := ParseHello(p, Stream)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if reason != c.reason || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v, reason %v; want %q, %v", c.name, err, reason, c.want, c.reason)
		}
	}
	probed := good
	probed.Flags, probed.Probe = good.Flags|HelloProbe, Probe{Addr: 1 << 40, Key: 77}
	if h, _, err := ParseHello(probed.Encode(), Stream); err != nil || h != probed {
		t.Errorf("%+v, %v, want %+v", h, err, probed)
	}
	for n := range HelloLen {
		if _, _, err := ParseHello(b[:n], Stream); err == nil {
			t.Errorf("%d bytes of a hello are accepted", n)
		}
	}
}

func TestRejection(t *testing.T) {
	b := Rejection{Min: 1, Max: 2, Reason: RejectKind}.Encode()
	if string(b) != "PVR1\x01\x02\x02" || len(b) != RejectLen {
		t.Errorf("encoded %q", b)
	}
	if r, ok := ParseRejection(append(b, 0, 0, 9)); !ok || r != (Rejection{Min: 1, Max: 2, Reason: RejectKind}) {
		t.Errorf("%+v, %v", r, ok)
	}
	for _, p := range []string{"", "PVR1\x01\x02", "PVR2\x01\x02\x02", "something else"} {
		if r, ok := ParseRejection([]byte(p)); ok {
			t.Errorf("%q: %+v", p, r)
		}
	}
}

func TestControls(t *testing.T) {
	lend := LendFrame{Addr: 0x0807060504030201, Length: 0x1817161514131211, RKey: 0x24232221, Milliseconds: 0x34333231,
		Access: 5, Flags: 6, Request: 0x0908}
	request := RequestFrame{Bytes: 0x0807060504030201, Milliseconds: 0x14131211, Access: 4}
	for _, f := range []struct {
		c    Control
		kind Kind
		aux  uint32
		want string
	}{
		{lend.Encode(7), Lend, 7,
			"\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18!\"#$1234\x05\x06\x08\x09"},
		{request.Encode(3), Request, 3, "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x04\x00\x00\x00"},
		{NumberFrame(Extend, 1, 0x04030201), Extend, 1, "\x01\x02\x03\x04"},
		{NumberFrame(Revoke, 2, EndedExpired), Revoke, 2, "\x02\x00\x00\x00"},
		{NumberFrame(Return, 3, EndedRevoked), Return, 3, "\x01\x00\x00\x00"},
		{NumberFrame(Refuse, 4, 2), Refuse, 4, "\x02\x00\x00\x00"},
	} {
		p := f.c.Payload()
		if string(p) != f.want || f.c.Kind != f.kind || f.c.Aux != f.aux {
			t.Errorf("%v %d: %q, want %v %d, %q", f.c.Kind, f.c.Aux, p, f.kind, f.aux, f.want)
		}
		h := Header{Kind: f.c.Kind, Length: uint32(len(p))}
		if _, err := h.Check(HeaderLen+h.Length, Messages, true); err != nil {
			t.Error(err)
		}
	}
	c := lend.Encode(7)
	if got := ParseLend(c.Payload()); got != lend {
		t.Errorf("%+v, and back %+v", lend, got)
	}
	c = request.Encode(3)
	if got := ParseRequest(c.Payload()); got != request {
		t.Errorf("%+v, and back %+v", request, got)
	}
	c = NumberFrame(Extend, 1, 1<<31)
	if got := ParseNumber(c.Payload()); got != 1<<31 {
		t.Errorf("number %d", got)
	}
}

// TestDocumentation compares the numbers with those in the documentation of the protocol.
func TestDocumentation(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "rdma-protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| ([A-Z]+) \|`).FindAllStringSubmatch(page, -1) {
		found++
		if n, _ := strconv.Atoi(m[1]); Kind(n).String() != m[2] {
			t.Errorf("the page says that kind %s is %s, not %v", m[1], m[2], Kind(n))
		}
	}
	if found != int(kinds) {
		t.Errorf("the page has %d kinds, want %d", found, kinds)
	}
	for _, s := range []string{
		fmt.Sprintf("flags: %d MORE, %d IMM, %d MAY-IGNORE, %d CANCEL, %d LOWER, %d LOWERED, %d PACKED", FlagMore,
			FlagImm, FlagIgnore, FlagCancel, FlagLower, FlagLowered, FlagPacked),
		fmt.Sprintf("request has %d bytes", HelloLen),
		fmt.Sprintf("| `%s` |", magic),
		fmt.Sprintf("%d messages, %d a stream", Messages, Stream),
		fmt.Sprintf("flags: %d the sender allows leases, %d it accepts PACKED frames", HelloLeases, HelloPacks),
		fmt.Sprintf("accepts, %d KiB to %d MiB", MinBlock>>10, MaxBlock>>20),
		fmt.Sprintf("%d to %d |\n| 16 |", MinLimit, MaxWindow),
		fmt.Sprintf("| 24 | %d | the program's own |", AppDataLen),
		fmt.Sprintf("A refusal has %d bytes: `%s`, lowest and highest version, and a reason", RejectLen, magic),
		fmt.Sprintf("%d version, %d kind, %d other", RejectVersion, RejectKind, RejectOther),
		fmt.Sprintf("%d `MaxConns`, %d queue pairs, %d memory", RejectMaxConns, RejectQueuePairs, RejectMemory),
		fmt.Sprintf("%d busy, %d `Authorize`, %d late, %d closed", RejectBusy, RejectAuthorize, RejectLate,
			RejectClosed),
		fmt.Sprintf("the reason: %d the peer broke the protocol, %d a message was", ResetProtocol, ResetMemory),
		fmt.Sprintf("for others, %d its program has closed", ResetClosed),
		fmt.Sprintf("aux %d: its sender also reads no more", FINClosed),
		fmt.Sprintf("aux %d: its sender has closed and reads no more", FINClosed),
		fmt.Sprintf("reason u32: %d by the holder, %d revoked, %d expired", EndedByHolder, EndedRevoked, EndedExpired),
		fmt.Sprintf("their own credits: %d at first", ControlWindow),
	} {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not contain %q", s)
		}
	}
}

func TestAllocs(t *testing.T) {
	b := make([]byte, 64)
	h := Header{Kind: Data, Flags: FlagPacked, Length: 48}
	if n := testing.AllocsPerRun(100, func() {
		h.Put(b)
		PutRecord(b[HeaderLen:], 33, FlagImm, 5)
		got := ParseHeader(b)
		_, err := got.Check(64, Messages, true)
		if err != nil || CheckRecords(b[HeaderLen:], 64) != nil {
			t.Error(err)
		}
		c := NumberFrame(Return, 1, 2)
		_ = ParseNumber(c.Payload())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
