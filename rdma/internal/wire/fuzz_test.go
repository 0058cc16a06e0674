package wire

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzFrame reads frames as a hostile peer may send them, and everything in them that a connection would.
func FuzzFrame(f *testing.F) {
	frame := func(h Header, payload []byte) {
		h.Length = uint32(len(payload))
		b := make([]byte, HeaderLen, HeaderLen+len(payload))
		h.Put(b)
		f.Add(append(b, payload...), uint8(Messages), true)
	}
	lend := LendFrame{Addr: 4096, Length: 64, RKey: 5, Milliseconds: 1000, Access: 7, Request: 3}
	request := RequestFrame{Bytes: 9, Milliseconds: 10, Access: 1}
	for _, c := range []Control{lend.Encode(7), request.Encode(9), NumberFrame(Refuse, 1, 2)} {
		frame(Header{Kind: c.Kind, Aux: c.Aux}, c.Payload())
	}
	frame(Header{Kind: Data, Flags: FlagPacked}, []byte("\x05\x00\x00\x80\x01\x00\x00\x00hello\x00\x00\x00"))
	frame(Header{Kind: Data, Flags: FlagMore, Limit: 1<<32 - 1, Seq: 3}, []byte("a message"))
	frame(Header{Kind: Limit, Flags: FlagLowered}, nil)
	frame(Header{Kind: 77, Flags: FlagIgnore}, nil)
	f.Add([]byte("short"), uint8(Stream), false)
	f.Fuzz(func(t *testing.T, b []byte, kind uint8, leases bool) {
		mem := append(bytes.Clone(b), make([]byte, HeaderLen)...) // a block is longer than what came
		h := ParseHeader(mem)
		ignore, err := h.Check(uint32(len(b)), ConnKind(kind), leases)
		if bad := (*Error)(nil); err != nil && !errors.As(err, &bad) {
			t.Errorf("%v, want an *Error", err)
		}
		if err != nil || ignore {
			if err != nil && ignore || ignore && (h.Flags&FlagIgnore == 0 || h.Kind.Known(leases)) {
				t.Errorf("%+v: ignored, %v", h, err)
			}
			return
		}
		back := make([]byte, HeaderLen)
		h.Put(back)
		if !bytes.Equal(back, b[:HeaderLen]) {
			t.Errorf("% x, and back % x", b[:HeaderLen], back)
		}
		p := b[HeaderLen:]
		if int(h.Length) != len(p) {
			t.Errorf("length %d of %d bytes", h.Length, len(p))
		}
		same := func(c Control, n int) {
			if !bytes.Equal(c.Payload()[:n], p[:n]) || c.Kind != h.Kind || len(c.Payload()) != len(p) {
				t.Errorf("%v % x, and back %v % x", h.Kind, p, c.Kind, c.Payload())
			}
		}
		switch h.Kind {
		case Data:
			if h.Flags&FlagPacked != 0 {
				records(t, p)
			}
		case Lend:
			f := ParseLend(p)
			same(f.Encode(h.Aux), len(p))
		case Request:
			f := ParseRequest(p)
			same(f.Encode(uint16(h.Aux)), len(p)-3) // the last 3 bytes have no meaning
		case Extend, Revoke, Return, Refuse:
			same(NumberFrame(h.Kind, h.Aux, ParseNumber(p)), len(p))
		}
	})
}

// records takes the payload of a PACKED frame apart, and makes it again.
func records(t *testing.T, p []byte) {
	const most = 512
	err := CheckRecords(p, most)
	if bad := (*Error)(nil); err != nil && !errors.As(err, &bad) {
		t.Errorf("%v, want an *Error", err)
	}
	if err != nil {
		return
	}
	size := 0
	for rest := p; len(rest) > 0; {
		n, imm, has := ParseRecord(rest)
		if n > most {
			t.Fatalf("a message of %d bytes", n)
		}
		all := RecordSize(int(n))
		again := bytes.Repeat([]byte{0xa5}, all)
		copy(again[RecordLen:], rest[RecordLen:][:n])
		flags := uint8(0)
		if has {
			flags = FlagImm
		}
		PutRecord(again, int(n), flags, imm)
		if n2, imm2, has2 := ParseRecord(again); n2 != n || has2 != has || has && imm2 != imm || !has && imm2 != 0 {
			t.Errorf("%d bytes, immediate %d %v; and back %d, %d %v", n, imm, has, n2, imm2, has2)
		}
		if pad := again[RecordLen+n:]; !bytes.Equal(pad, make([]byte, len(pad))) {
			t.Errorf("padding % x", pad)
		}
		size, rest = size+all, rest[all:]
	}
	if size != len(p) {
		t.Errorf("records of %d bytes in a frame of %d", size, len(p))
	}
}

// FuzzRecords takes frames apart as a hostile peer may send them.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("\x05\x00\x00\x80\x01\x00\x00\x00hello\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x09\x00\x00\x00\x00\x00\x00\x00too short"))
	f.Add([]byte("\xff\xff\xff\x7f\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00half a"))
	f.Add([]byte{})
	f.Fuzz(records)
}

// FuzzHello reads private data of strangers.
func FuzzHello(f *testing.F) {
	_, good := goodHello()
	f.Add([]byte(good), uint8(Stream))
	f.Add([]byte(good), uint8(Messages))
	f.Add([]byte(good+"\x00\x00\x00"), uint8(Stream))
	f.Add([]byte("PVR1\x02\x09"+good[6:]), uint8(Stream))
	f.Add([]byte(good[:7]+"\x04"+good[8:]), uint8(Stream))
	f.Add([]byte(good[:7]+"\x04"+good[8:]+"123456789012"), uint8(Stream))
	f.Add([]byte("PVR1\x01\x01\x02"), uint8(Stream))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, want uint8) {
		h, reason, err := ParseHello(b, ConnKind(want))
		var bad *Error
		var version *VersionError
		switch {
		case err != nil:
			if !errors.As(err, &bad) && !errors.As(err, &version) || h != (Hello{}) {
				t.Errorf("%v, %+v", err, h)
			}
			if (reason == RejectVersion) != (version != nil) {
				t.Errorf("reason %v for %v", reason, err)
			}
		case h.Block < MinBlock || h.Block > MaxBlock || h.Limit < MinLimit || h.Limit > MaxWindow ||
			h.Kind != ConnKind(want) || h.Min > MaxVersion || h.Max < MinVersion || reason != RejectOther:
			t.Errorf("%+v, reason %v", h, reason)
		default:
			n := HelloLen
			if h.Flags&HelloProbe != 0 {
				n += probeLen
			}
			wanted := bytes.Clone(b[:n])
			clear(wanted[20:24]) // no meaning
			if !bytes.Equal(h.Encode(), wanted) {
				t.Errorf("%q, and back %q", wanted, h.Encode())
			}
		}
		if r, ok := ParseRejection(b); ok != (len(b) >= RejectLen && string(b[:4]) == magic) ||
			ok && !bytes.Equal(r.Encode(), b[:RejectLen]) {
			t.Errorf("rejection %+v, %v", r, ok)
		}
	})
}
