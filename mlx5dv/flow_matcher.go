package mlx5dv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// FlowMatcher has the fields of frames that the rules made of it compare. The rules have the values:
//
//	m, err := mlx5dv.CreateFlowMatcher(dev, &mlx5dv.FlowMatcherOptions{
//		Mask: mlx5dv.Match{Outer: mlx5dv.MatchHeaders{IPVersion: 0xf, UDPDstPort: 0xffff}}})
//	f, err := m.CreateFlow(&mlx5dv.Match{Outer: mlx5dv.MatchHeaders{IPVersion: 4, UDPDstPort: 4789}},
//		mlx5dv.FlowToQP{QP: qp}, mlx5dv.FlowTag(7))
//
// Its rules are in the same tables as those of ibv's CreateFlow, with the same priorities. It can compare more than
// those, and its rules can change frames.
//
// It belongs to its Device. Close fails while it has rules.
//
// C: struct mlx5dv_flow_matcher.
type FlowMatcher struct {
	node
	mask  []byte
	table FlowTable
}

// FlowMatcherOptions describes a FlowMatcher. The zero value compares nothing: its rules are about each frame that a
// port receives.
//
// C: struct mlx5dv_flow_matcher_attr.
type FlowMatcherOptions struct {
	Mask     Match
	Priority int // 0 is the highest. mlx5 has 16.
	Table    FlowTable
	// IBPort is the port, from 1, of a table of type TableRDMATransportRx or -Tx; for
	// libmlx5 v58 or later.
	IBPort int
}

// maxFlowPriority is the maximum of the 16-bit field.
const maxFlowPriority = 1<<16 - 1

// CreateFlowMatcher makes a matcher; opt may be nil.
//
// C: mlx5dv_create_flow_matcher(3), of libmlx5 v20; tables other than NICRx and NICTx need v22.
func CreateFlowMatcher(dev *ibv.Device, opt *FlowMatcherOptions) (*FlowMatcher, error) {
	if opt == nil {
		opt = &FlowMatcherOptions{}
	}
	c, m := begin(dev, "create flow matcher"), &FlowMatcher{table: opt.Table}
	return create(c, m, &m.node, "flow matcher", func() (h uintptr, err error) {
		m.mask, err = opt.Mask.encode("Mask")
		if err = errors.Join(err, checkPriority(opt.Priority), opt.checkTable()); err != nil {
			return 0, err
		}
		attr := &abi.MLX5DVFlowMatcherAttr{Priority: uint16(opt.Priority), MatchCriteriaEnable: parts(m.mask)}
		switch opt.Table {
		case TableNICRx:
		case TableNICTx: // which each release knows
			attr.Flags = uint32(ibv.FlowEgress)
		default:
			attr.CompMask, attr.FTType = abi.MLX5DV_FLOW_MATCHER_MASK_FT_TYPE, uint32(opt.Table)
		}
		if opt.IBPort != 0 {
			attr.CompMask |= abi.MLX5DV_FLOW_MATCHER_MASK_IB_PORT
			attr.IBPort = uint32(opt.IBPort)
		}
		h, err = c.lib.CreateFlowMatcher(c.handle, attr, m.mask)
		return h, explainSteering(err, dev, "a matcher of table "+opt.Table.String(), opt.Priority)
	})
}

func checkPriority(p int) error {
	switch {
	case p < 0:
		return &ibv.ArgError{Arg: "Priority", Got: fmt.Sprint(p), Want: "0, the highest, or more"}
	case p > maxFlowPriority:
		return &ibv.LimitError{What: "flow priority", Asked: uint64(p), Limit: maxFlowPriority,
			Where: "a field of 16 bits"}
	}
	return nil
}

func (o *FlowMatcherOptions) checkTable() error {
	transport := o.Table == TableRDMATransportRx || o.Table == TableRDMATransportTx
	switch {
	case o.Table > TableRDMATransportTx:
		return &ibv.ArgError{Arg: "Table", Got: o.Table.String(), Want: "TableNICRx to TableRDMATransportTx"}
	case o.IBPort < 0, o.IBPort > 255, o.IBPort > 0 && !transport:
		return &ibv.ArgError{Arg: "IBPort", Got: fmt.Sprintf("%d for table %v", o.IBPort, o.Table),
			Want: "a port, with TableRDMATransportRx or TableRDMATransportTx"}
	}
	return nil
}

// Close destroys the matcher.
//
// C: mlx5dv_destroy_flow_matcher(3).
func (m *FlowMatcher) Close() error { return m.destroy(m.lib.DestroyFlowMatcher) }

// explainSteering returns an error with the requirements of a rule, a matcher or an action. priority is negative where
// there is none.
func explainSteering(err error, dev *ibv.Device, what string, priority int) error {
	switch {
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("steering needs CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on the program: %w", err)
	case errors.Is(err, syscall.ENOMEM) && priority > 15:
		return fmt.Errorf("priority %d: mlx5 has 0 to 15: %w", priority, err)
	case errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("a rule with the same matches and priority does something else with the frames: %w", err)
	}
	return verbs.ExplainUnsupported(err, what, "a device and a kernel with it; ibv.QP.CreateFlow for plain rules",
		dev.Name()+" without it")
}
