package mlx5_test

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

const (
	signedKey = 0x5500
	opUMR     = 0x25
	opSetPSV  = 0x20
)

// signature returns one of T10-DIF in memory and of a CRC on the wire.
func signature() *work.Signature {
	s := new(work.Signature)
	s.T10DIF(work.SigMemory, abi.MLX5DV_BLOCK_SIZE_512, abi.MLX5DVSigT10DIF{BG: 0xffff, AppTag: 2, RefTag: 3})
	s.CRC(work.SigWire, abi.MLX5DV_BLOCK_SIZE_512, abi.MLX5DVSigCRC{Type: abi.MLX5DV_SIG_CRC_TYPE_CRC32})
	return s
}

func changeOf(s *work.Signature) *work.MkeyUpdate {
	return &work.MkeyUpdate{Key: signedKey, SetAccess: true, Access: 1, Signature: s,
		List: []mlx5.SGE{{Addr: 0x1000, Length: 520, LKey: 7}}}
}

// wrongCQE writes the completion of a wrong signature.
func (d *device) wrongCQE(key uint32, syndrome uint16, kind, domain byte) {
	d.put(cqe{op: 12})
	n := len(d.cq) / d.cqeSize
	e := d.cq[int(d.pi-1)%n*d.cqeSize:][d.cqeSize-64:]
	be := binary.BigEndian
	be.PutUint64(e[16:], 0x1111222233334444)
	be.PutUint64(e[24:], 0x5555666677778888)
	be.PutUint16(e[32:], syndrome)
	e[34], e[35] = kind, domain
	be.PutUint32(e[36:], key)
	be.PutUint64(e[40:], 520)
}

// posted returns the WQEs of a change.
func posted(t testing.TB, d *device, q *mlx5.QP, m *work.MkeyUpdate, k *mlx5.SignedKey, at int) (list [][]byte,
	next int) {
	t.Helper()
	before := q.SQ.Mark()
	if !q.SQ.Mkey(1, signaled, m, k) {
		t.Fatal("no room")
	}
	for range q.SQ.Since(before) {
		n := int(d.wqe(at, 16)[7]&0x3f) * 16
		list = append(list, d.wqe(at, n))
		at += (n + 63) / 64
	}
	return list, at
}

// What was discarded is posted again by the next change that needs it.
func TestSignedKey_Undo(t *testing.T) {
	d, q := newSQ(t, 64, nil)
	k := &mlx5.SignedKey{Signs: true, PSV: [2]uint32{8, 9}}
	first := q.SQ.Mark()
	want, _ := posted(t, d, q, changeOf(signature()), k, 0)
	if len(want) != 3 || want[0][3] != opUMR || want[1][3] != opSetPSV || want[2][3] != opSetPSV {
		t.Fatalf("WQEs % x", want)
	}
	posted(t, d, q, changeOf(nil), k, 8)
	q.SQ.Rollback(first)
	k.Undo(&q.SQ, q.SQ.Rung())
	again, next := posted(t, d, q, changeOf(signature()), k, 0)
	for i := range want {
		same(t, "after what was discarded", again[i], want[i])
	}
	q.SQ.Ring()
	// A change that was discarded leaves what was rung before, and arms the key again: it sets the states.
	armed := q.SQ.Mark()
	reset := changeOf(nil)
	reset.Conf.ConfFlags = abi.MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR
	posted(t, d, q, reset, k, next)
	q.SQ.Rollback(armed)
	k.Undo(&q.SQ, q.SQ.Rung())
	if list, _ := posted(t, d, q, changeOf(nil), k, next); len(list) != 3 {
		t.Errorf("%d WQEs, want 3", len(list))
	}
}

// Where there is no room for all WQEs of a change, none is built, and the key is as before.
func TestSignedKey_Full(t *testing.T) {
	const blocks = 16 // a change has 6
	for _, c := range []struct {
		name  string
		setup func(*mlx5.SQConfig)
	}{{"blocks", nil}, {"work requests", func(c *mlx5.SQConfig) { c.MaxWR = 8 }}} {
		t.Run(c.name, func(t *testing.T) {
			d, q := newSQ(t, blocks, c.setup)
			k := &mlx5.SignedKey{Signs: true, PSV: [2]uint32{8, 9}}
			posted(t, d, q, changeOf(signature()), k, 0)
			posted(t, d, q, changeOf(signature()), k, 6)
			before := q.SQ.Mark()
			reset := changeOf(nil)
			if q.SQ.Mkey(1, 0, changeOf(signature()), k) || q.SQ.Since(before) != 0 {
				t.Fatalf("%d WQEs in a queue that has no room for three", q.SQ.Since(before))
			}
			if list, _ := posted(t, d, q, reset, k, 12); len(list) != 1 {
				t.Errorf("%d WQEs, want 1", len(list))
			}
		})
	}
}

// The entry of an encryption, and where one of a signature is before it.
func TestSignedKey_Crypto(t *testing.T) {
	tweak := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	crypto := func(onTx uint8, order uint32) *abi.MLX5DVCryptoAttr {
		return &abi.MLX5DVCryptoAttr{EncryptOnTx: onTx, SignatureCryptoOrder: order, InitialTweak: tweak,
			DataUnitSize: abi.MLX5DV_BLOCK_SIZE_4096, Keytag: [8]byte{0xa, 0xb}}
	}
	const after, before = abi.MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX,
		abi.MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX
	for _, c := range []struct {
		name    string
		key     *mlx5.SignedKey
		crypto  *abi.MLX5DVCryptoAttr
		sig     *work.Signature
		want    string // the last entry
		octos   byte
		changes int
	}{
		{"alone", &mlx5.SignedKey{Encrypts: true}, crypto(1, after), nil,
			"81020000 ffffffff 03000000 00000000 00010203 04050607 08090a0b 0c0d0e0f 00345678 00000000 " +
				"0a0b0000 00000000 00000000 00000000 00000000 00000000", 4, 1},
		{"several units", &mlx5.SignedKey{Encrypts: true, Several: true}, crypto(0, after), nil,
			"81010000 ffffffff 03000000 00000000 0f0e0d0c 0b0a0908 07060504 03020100 00345678 00000000 " +
				"0a0b0000 00000000 00000000 00000000 00000000 00000000", 4, 1},
		{"with a signature", &mlx5.SignedKey{Encrypts: true, Signs: true, PSV: [2]uint32{8, 9}}, crypto(1, before),
			signature(),
			"c1000000 ffffffff 03000000 00000000 00010203 04050607 08090a0b 0c0d0e0f 00345678 00000000 " +
				"0a0b0000 00000000 00000000 00000000 00000000 00000000", 8, 3},
		{"before it was signed", &mlx5.SignedKey{Encrypts: true, Signs: true}, crypto(0, before), nil,
			"c1030000 ffffffff 03000000 00000000 00010203 04050607 08090a0b 0c0d0e0f 00345678 00000000 " +
				"0a0b0000 00000000 00000000 00000000 00000000 00000000", 8, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, q := newSQ(t, 64, nil)
			m := changeOf(c.sig)
			m.Crypto, m.DEK = c.crypto, 0x12345678
			list, next := posted(t, d, q, m, c.key, 0)
			if len(list) != c.changes {
				t.Fatalf("%d WQEs, want %d", len(list), c.changes)
			}
			w := list[0]
			if mask := binary.BigEndian.Uint64(w[24:]); mask&(1<<12) == 0 || w[64+12]&0x40 == 0 || w[23] != c.octos {
				t.Errorf("the control segment says nothing of the entry: % x", w[:80])
			}
			same(t, "the entry", w[len(w)-64:], parse(t, c.want))
			if c.octos == 8 && w[len(w)-128] != 0xc0 {
				t.Errorf("the entry of the signature begins with %#x", w[len(w)-128])
			}
			// What was set stays, and is not repeated.
			list, _ = posted(t, d, q, changeOf(nil), c.key, next)
			if len(list) != 1 && c.sig == nil || list[0][23] != 0 {
				t.Errorf("the next change: % x", list)
			}
		})
	}
}

// What a device that encrypts does not do is told before it is posted.
func TestSignedKey_Refuses(t *testing.T) {
	one := &abi.MLX5DVCryptoAttr{EncryptOnTx: 1}
	both, long := changeOf(signature()), changeOf(nil)
	both.Crypto, long.Crypto = one, one
	long.List[0].Length = 513
	fits := changeOf(nil)
	fits.Crypto, fits.List[0].Length = one, 512
	for _, c := range []struct {
		name   string
		key    *mlx5.SignedKey
		m      *work.MkeyUpdate
		refuse bool
	}{
		{"no key", nil, both, false},
		{"a key that does not encrypt", &mlx5.SignedKey{Signs: true}, both, false},
		{"both domains", &mlx5.SignedKey{Signs: true, Encrypts: true, Several: true}, both, true},
		{"two units", &mlx5.SignedKey{Encrypts: true}, long, true},
		{"two of several units", &mlx5.SignedKey{Encrypts: true, Several: true}, long, false},
		{"one unit", &mlx5.SignedKey{Encrypts: true}, fits, false},
		{"not encrypted yet", &mlx5.SignedKey{Encrypts: true}, changeOf(nil), false},
	} {
		if why := c.key.Refuses(c.m); (why != "") != c.refuse {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// Completions of wrong signatures: of all kinds, of those that make no sense, of a key that is not there.
func TestSignedKey_Check(t *testing.T) {
	const refTag, appTag, guard = 1 << 11, 1 << 12, 1 << 13
	d := newDevice(t, size{blocks: 64, cqes: 8, cqeSize: 64})
	table := new(mlx5.Table)
	cq := d.newCQ(table)
	q := mlx5.NewQP(qpn, true, d.sqConfig(), nil, nil)
	table.Add(q)
	k := &mlx5.SignedKey{Signs: true, PSV: [2]uint32{8, 9}}
	table.AddKey(signedKey, k)
	at := 0
	for _, c := range []struct {
		syndrome     uint16
		kind, domain byte
		want         abi.MLX5DVMkeyErr
		bad          bool
	}{
		{refTag, 0, 1, abi.MLX5DVMkeyErr{ErrType: abi.MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG,
			Err: abi.MLX5DVSigErr{ActualValue: 0x77778888, ExpectedValue: 0x55556666, Offset: 520}}, false},
		{appTag, 0, 1, abi.MLX5DVMkeyErr{ErrType: abi.MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG,
			Err: abi.MLX5DVSigErr{ActualValue: 0x4444, ExpectedValue: 0x2222, Offset: 520}}, false},
		{guard, 0, 1, abi.MLX5DVMkeyErr{ErrType: abi.MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD,
			Err: abi.MLX5DVSigErr{ActualValue: 0x3333, ExpectedValue: 0x1111, Offset: 520}}, false},
		{guard, 0, 0, abi.MLX5DVMkeyErr{ErrType: abi.MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD,
			Err: abi.MLX5DVSigErr{ActualValue: 0x33334444, ExpectedValue: 0x11112222, Offset: 520}}, false},
		{1, 0, 0, abi.MLX5DVMkeyErr{}, true},
		{guard, 1, 0, abi.MLX5DVMkeyErr{}, true},
		{guard, 0, 2, abi.MLX5DVMkeyErr{}, true},
	} {
		_, at = posted(t, d, q, changeOf(signature()), k, at)
		d.wrongCQE(signedKey|0x44, c.syndrome, c.kind, c.domain)
		d.sent(qpn, opSetPSV, uint16(at-1))
		if wc := poll(t, cq, 1)[0]; wc.ID != 1 || wc.Opcode != abi.MLX5DV_WC_UMR {
			t.Errorf("%+v, want the completion behind", wc)
		}
		got, err := k.Check()
		if got != c.want || (err != nil) != c.bad || c.bad && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("syndrome %#x of type %d in domain %d: %+v, %v", c.syndrome, c.kind, c.domain, got, err)
		}
		if got, err := k.Check(); got != (abi.MLX5DVMkeyErr{}) || err != nil {
			t.Errorf("told twice: %+v, %v", got, err)
		}
	}
	table.RemoveKey(signedKey, new(mlx5.SignedKey)) // which it is not
	d.wrongCQE(signedKey, guard, 0, 0)
	poll(t, cq, 0)
	if _, err := k.Check(); err != nil {
		t.Errorf("the key is gone: %v", err)
	}
	table.RemoveKey(signedKey, k)
	d.wrongCQE(signedKey, guard, 0, 0)
	var e *mlx5.CQEError
	if n, err := cq.Poll(make([]mlx5.WC, 1)); n != 0 || !errors.As(err, &e) {
		t.Errorf("%d, %v, want a CQEError of a key that is not there", n, err)
	}
}

// Posting a change of a key with a signature allocates nothing.
func TestSignedKey_Allocs(t *testing.T) {
	_, q := newSQ(t, 4096, func(c *mlx5.SQConfig) { c.MaxWR = 4096 })
	k, m := &mlx5.SignedKey{Signs: true, PSV: [2]uint32{8, 9}}, changeOf(signature())
	if n := testing.AllocsPerRun(100, func() {
		if !q.SQ.Mkey(1, 0, m, k) {
			t.Fatal("no room")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkMkey posts changes of a key without a signature, and of one with.
func BenchmarkMkey(b *testing.B) {
	for name, k := range map[string]*mlx5.SignedKey{"plain": nil, "signed": {Signs: true, PSV: [2]uint32{8, 9}}} {
		b.Run(name, func(b *testing.B) {
			_, q := newSQ(b, 64, nil)
			m := changeOf(nil)
			if k != nil {
				m.Signature = signature()
			}
			start := q.SQ.Mark()
			for range b.N {
				q.SQ.Mkey(1, 0, m, k)
				q.SQ.Rollback(start)
			}
		})
	}
}
