package ibv

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// A limit that tooLarge names is the most that is taken next to the other sizes, or to the least.
func TestTooLarge(t *testing.T) {
	takes := func(most, product int) func(s []int) bool {
		return func(s []int) bool { return max(s[0], s[1]) <= most && s[2] <= 32 && s[0]*(s[2]+1) <= product }
	}
	for range 5000 {
		try := takes(1<<rand.IntN(14), 1<<(6+rand.IntN(12)))
		sizes := []limit{{"a", rand.IntN(1 << 14), 100}, {"b", rand.IntN(1 << 14), -1}, {"c", rand.IntN(64), 30}}
		asked, least := []int{0, 0, 0}, []int{0, 0, 0}
		for i, l := range sizes {
			asked[i], least[i] = l.asked, min(l.asked, 1)
		}
		if try(asked) {
			continue
		}
		calls := 0
		found := tooLarge(sizes, func(s []int) bool { calls++; return try(s) })
		if len(found) == 0 || calls > 64 {
			t.Fatalf("%v: %v after %d tries", sizes, found, calls)
		}
		for _, f := range found {
			i := int(f.what[0] - 'a')
			right := false
			for _, others := range [][]int{asked, least} {
				s := append([]int(nil), others...)
				s[i] = f.most
				good := try(s)
				s[i]++
				right = right || good && !try(s)
			}
			if !right || f.most >= f.asked {
				t.Fatalf("%v: %+v", sizes, f)
			}
		}
	}
	if found := tooLarge([]limit{{"a", 5, 3}}, func([]int) bool { return false }); found != nil {
		t.Errorf("with nothing taken: %v", found)
	}
	huge := []limit{{"a", math.MaxInt, 100}}
	if found := tooLarge(huge, func(s []int) bool { return s[0] <= 7 }); len(found) != 1 || found[0].most != 7 {
		t.Errorf("%v", found)
	}
}

// TestRXE_TrueSizes: a refused size is named with a limit that is true.
func TestRXE_TrueSizes(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, path := range []DataPath{DataPathOps, DataPathDirect} {
		if path == DataPathDirect && soft(rxe) {
			continue
		}
		t.Run(path.String(), func(t *testing.T) {
			s := newSide(t, 0, &CQOptions{DataPath: path})
			wr, sge := s.dev.attr.MaxQPWR, s.dev.attr.MaxSGE
			get := func(o *QPOptions, what string) *int {
				return map[string]*int{"max_send_wr": &o.MaxSendWR, "max_recv_wr": &o.MaxRecvWR,
					"max_send_sge": &o.MaxSendSGE, "max_recv_sge": &o.MaxRecvSGE, "max_inline_data": &o.MaxInline}[what]
			}
			named := 0
			for _, o := range []QPOptions{
				{MaxSendWR: wr, MaxSendSGE: sge}, {MaxSendWR: wr, MaxInline: 200}, {MaxSendWR: wr + 1},
				{MaxRecvWR: wr + 1}, {MaxSendSGE: 200}, {MaxRecvSGE: 200}, {MaxInline: 1 << 14},
				{MaxInline: 1 << 14, Type: UD},
				{MaxSendSGE: 200, MaxRecvSGE: 300}, {MaxSendWR: math.MaxInt32}, {MaxSendWR: math.MaxInt},
				{MaxRecvSGE: 1<<28 + 1}, {MaxInline: math.MaxInt32},
			} {
				if soft(rxe) && max(o.MaxSendWR, o.MaxRecvWR) > 0 {
					continue // SoftRoCE takes a million, and the memory for them
				}
				name := fmt.Sprintf("%v %+v", path, o)
				qp, err := s.pd.CreateQP(s.cq, s.cq, &o)
				if err == nil {
					ok(t, qp.Close())
					continue
				}
				wantErr(t, err, syscall.EINVAL)
				one := len(allLimits(err)) == 1
				for _, le := range allLimits(err) {
					named++
					p := get(&o, le.What)
					if p == nil || le.Asked != uint64(*p) || le.Limit >= le.Asked {
						t.Fatalf("%s: %v", name, err)
					}
					less := o
					if !one { // each is too large: the limits are those next to the least sizes
						less = QPOptions{Type: o.Type, MaxSendWR: 1, MaxRecvWR: 1}
						if product := o.MaxSendWR == wr; product {
							less = o
						}
					}
					*get(&less, le.What) = int(le.Limit)
					if err := closed(s.pd.CreateQP(s.cq, s.cq, &less)); err != nil {
						t.Errorf("%s: with the limit %d of %s: %v", name, le.Limit, le.What, err)
					}
					*get(&less, le.What)++
					if closed(s.pd.CreateQP(s.cq, s.cq, &less)) == nil {
						t.Errorf("%s: one more than the limit %d of %s is taken", name, le.Limit, le.What)
					}
				}
				if named == 0 {
					t.Errorf("%s: %v", name, err)
				}
			}
			if named < 6 {
				t.Errorf("%v: %d sizes were refused", path, named)
			}
		})
	}
}

// allLimits returns all *LimitErrors in err.
func allLimits(err error) (list []*LimitError) {
	if le, is := err.(*LimitError); is {
		return []*LimitError{le}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			list = append(list, allLimits(err)...)
		}
	case interface{ Unwrap() error }:
		if next := errors.Unwrap(err); next != nil {
			return allLimits(next)
		}
	}
	return list
}
