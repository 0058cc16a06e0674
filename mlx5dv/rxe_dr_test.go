package mlx5dv

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Direct rules in the root table; what needs other tables is refused by this adapter.
func TestRXEDirectRules(t *testing.T) {
	a, b := rawPair(t)
	if a == nil {
		return
	}
	pad := make([]byte, 40)
	src, dst := [4]byte{10, 1, 0, 1}, [4]byte{10, 1, 0, 2}
	head := join(b.mac[:], a.mac[:], be16(0x0800))
	frame := join(head, ipv4(17, src, dst, udp(5000, pad)))
	other := join(head, ipv4(17, src, dst, udp(5001, pad)))
	mask := &Match{Outer: MatchHeaders{IPVersion: 15, UDPDstPort: 0xffff}}
	value := &Match{Outer: MatchHeaders{IPVersion: 4, UDPDstPort: 5000}}

	d := closing(t, must(CreateDRDomain(b.dev, DRDomainNICRx))(t))
	root := closing(t, must(d.CreateTable(0))(t))
	toQP := closing(t, must(d.ToQP(b.qp))(t))
	tag := closing(t, must(d.Tag(0x777))(t))
	low := closing(t, must(root.CreateMatcher(3, nil))(t))
	high := closing(t, must(root.CreateMatcher(1, mask))(t))
	closing(t, must(low.CreateRule(nil, toQP))(t))
	comes := func(send, want []byte, tag uint32) {
		t.Helper()
		a.send(t, send)
		if got, is := b.frame(t); !bytes.Equal(got, want) || is != tag {
			t.Errorf("got %x with tag %d\nwant %x with tag %d", got, is, want, tag)
		}
	}
	comes(frame, frame, 0)
	r := must(high.CreateRule(value, tag, toQP))(t)
	comes(frame, frame, 0x777)
	comes(other, other, 0)

	t.Run("dump", func(t *testing.T) {
		testutil.NeedControl(t)
		var out bytes.Buffer
		err := d.Dump(&out)
		if errors.Is(err, ibv.ErrNotSupported) {
			wantError(t, err, ibv.ErrNotSupported, "v28")
			return
		}
		ok(t, err)
		sizes := []int{out.Len()}
		for _, f := range []func(*bytes.Buffer) error{
			func(w *bytes.Buffer) error { return root.Dump(w) }, func(w *bytes.Buffer) error { return high.Dump(w) },
			func(w *bytes.Buffer) error { return r.Dump(w) },
		} {
			out.Reset()
			ok(t, f(&out))
			sizes = append(sizes, out.Len())
		}
		for _, n := range sizes {
			if n == 0 {
				t.Errorf("dumps have %d bytes", sizes)
			}
		}
	})

	var be *ibv.BusyError
	for _, o := range []interface{ Close() error }{d, root, high, toQP, tag, b.qp} {
		if err := o.Close(); !errors.As(err, &be) {
			t.Errorf("closing %v in use: %v", o, err)
		}
	}
	ok(t, r.Close())
	comes(frame, frame, 0)
	drop := closing(t, must(d.Drop())(t))
	r = must(high.CreateRule(value, drop))(t)
	a.send(t, frame)
	b.none(t)
	ok(t, r.Close())
	ttl := closing(t, must(d.ModifyHeader(true, SetHeader(FieldDstMACLow, 0x9999)))(t))
	r = must(high.CreateRule(value, ttl, toQP))(t)
	changed := bytes.Clone(frame)
	changed[4], changed[5] = 0x99, 0x99
	comes(frame, changed, 0)
	ok(t, r.Close())

	t.Run("counter", func(t *testing.T) {
		n := newCounter(t, b.dev, 0)
		count := closing(t, must(d.Count(n.DevXObject, 0))(t))
		closing(t, must(high.CreateRule(value, count, toQP))(t))
		comes(frame, frame, 0)
		n.want(t, 0, 1, uint64(len(frame)))
	})
	t.Run("refused", func(t *testing.T) {
		_, err := d.CreateTable(1)
		wantError(t, err, ibv.ErrNotSupported, "above level 0")
		_, err = d.ModifyHeader(false, SetHeader(FieldTTL, 1))
		wantError(t, err, ibv.ErrNotSupported, "modify header")
		wantError(t, d.Sync(DRSyncSoftware), ibv.ErrNotSupported, "above level 0")
		_, err = d.ToTable(root)
		wantError(t, err, syscall.EINVAL, "level 0", "above level 0")
		second := closing(t, must(CreateDRDomain(b.dev, DRDomainNICRx))(t))
		foreign := closing(t, must(second.Drop())(t))
		_, err = high.CreateRule(value, foreign)
		wantError(t, err, syscall.EINVAL, "actions[0]", "another DRDomain")
		_, err = high.CreateRule(&Match{Outer: MatchHeaders{TTL: 3}}, drop)
		wantError(t, err, syscall.EINVAL, "Outer.TTL")
	})
}
