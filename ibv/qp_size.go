package ibv

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// describe returns the requested sizes, for an error.
func (o *QPOptions) describe() string {
	return fmt.Sprintf("type %v, send %d of %d sge, recv %d of %d sge, inline %d", o.Type, o.MaxSendWR, o.MaxSendSGE,
		o.MaxRecvWR, o.MaxRecvSGE, o.MaxInline)
}

// grants returns the requested sizes, with the device's limits and the granted sizes.
func (o *QPOptions) grants(dev *DeviceAttr, given *QPCap) [5]grant {
	return [...]grant{
		{numMaxSendWR.of(dev, o.MaxSendWR), given.MaxSendWR},
		{numMaxRecvWR.of(dev, o.MaxRecvWR), given.MaxRecvWR},
		{numMaxSendSGE.of(dev, o.MaxSendSGE), given.MaxSendSGE},
		{numMaxRecvSGE.of(dev, o.MaxRecvSGE), given.MaxRecvSGE},
		{numMaxInline.of(dev, o.MaxInline), given.MaxInline},
	}
}

// lessGranted, unless nil, makes less of what CreateQP was granted. Only tests set it: see Internal.
var lessGranted func(c *QPCap)

// grantedCap returns the sizes that a QP was granted.
func grantedCap(c *abi.QPCap) QPCap {
	got := capFromC(c)
	if lessGranted != nil {
		lessGranted(&got)
	}
	return got
}

func (o *QPOptions) limits(dev *DeviceAttr) (limits [5]limit) {
	for i, g := range o.grants(dev, &QPCap{}) {
		limits[i] = g.limit
	}
	return limits
}

// make creates the C object, unless a size is one that no library gets.
func (m *qpMaker) make(pd *PD, o *QPOptions, send, recv *CQ, init *abi.QPInitAttrEx) (uintptr, bool, error) {
	for _, l := range o.limits(&pd.dev.attr) {
		if l.asked > l.ceiling() {
			return 0, false, errInvalid
		}
	}
	return m.run(pd, o, send, recv, init)
}

// explainSizes adds to a refusal the sizes that are too large, with the most that the device takes. Libraries return
// only EINVAL or ENOMEM, and the limits of one size depend on the others and on the type: so queue pairs are created
// with less. SoftRoCE's limit of work requests is exact, and queue pairs of that size take hundreds of megabytes.
func (m *qpMaker) explainSizes(err error, pd *PD, o *QPOptions, send, recv *CQ, init *abi.QPInitAttrEx) error {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
		return err
	}
	err = pd.dev.blameSignatures("MLX5_QP_SIGNATURE", err)
	limits := o.limits(&pd.dev.attr)
	if max(o.MaxSendWR, o.MaxRecvWR) > pd.dev.attr.MaxQPWR && pd.dev.softRoCE() {
		return explainLimits(err, pd.dev.Name(), limits[:]...)
	}
	found := tooLarge(limits[:], func(sizes []int) bool {
		less, in := *o, *init
		less.MaxSendWR, less.MaxRecvWR, less.MaxSendSGE, less.MaxRecvSGE, less.MaxInline = sizes[0], sizes[1], sizes[2],
			sizes[3], sizes[4]
		in.Cap = less.cap()
		h, _, err := m.make(pd, &less, send, recv, &in)
		if err != nil {
			return false
		}
		given := capFromC(&in.Cap)
		enough := true
		for _, g := range less.grants(&pd.dev.attr, &given) {
			enough = enough && g.given >= g.asked
		}
		return m.end(pd.dev, h) == nil && enough
	})
	if found == nil {
		return explainLimits(err, pd.dev.Name(), limits[:]...)
	}
	errs := make([]error, len(found))
	for i, l := range found {
		errs[i] = l.error(pd.dev.Name() + " next to the other sizes")
	}
	return errors.Join(append(errs, err)...)
}

// cap returns the sizes as C has them.
func (o *QPOptions) cap() abi.QPCap {
	return abi.QPCap{
		MaxSendWR:     uint32(o.MaxSendWR),
		MaxRecvWR:     uint32(o.MaxRecvWR),
		MaxSendSGE:    uint32(o.MaxSendSGE),
		MaxRecvSGE:    uint32(o.MaxRecvSGE),
		MaxInlineData: uint32(o.MaxInline),
	}
}

// tooLarge returns those of refused sizes that are too large, with the most that try takes instead: next to the others,
// if one alone is too large, else next to the least. It returns nil if the sizes are not the reason.
func tooLarge(sizes []limit, try func(sizes []int) bool) (found []limit) {
	asked, least := make([]int, len(sizes)), make([]int, len(sizes))
	for i, l := range sizes {
		asked[i], least[i] = l.asked, min(l.asked, 1)
	}
	if !try(least) {
		return nil
	}
	with := func(others []int, i, v int) bool {
		others = slices.Clone(others)
		others[i] = v
		return try(others)
	}
	most := func(others []int, i int) limit {
		good, bad := least[i], min(asked[i], sizes[i].ceiling()+1)
		for bad-good > 1 {
			if mid := good + (bad-good)/2; with(others, i, mid) {
				good = mid
			} else {
				bad = mid
			}
		}
		return limit{sizes[i].what, asked[i], good}
	}
	for i := range sizes {
		if asked[i] > least[i] && with(asked, i, least[i]) {
			found = append(found, most(asked, i))
		}
	}
	if found != nil {
		return found
	}
	for i := range sizes {
		if asked[i] > least[i] && !with(least, i, asked[i]) {
			found = append(found, most(least, i))
		}
	}
	return found
}
