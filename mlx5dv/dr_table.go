package mlx5dv

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// DRTable is a table of direct rules.
//
// It belongs to its DRDomain. Close fails while it has matchers, or actions that lead to it.
//
// C: struct mlx5dv_dr_table.
type DRTable struct {
	node
	domain *DRDomain
	level  int
}

// CreateTable makes a table. Frames begin in that of level 0; the others are reached by rules.
//
// C: mlx5dv_dr_table_create(3).
func (d *DRDomain) CreateTable(level int) (*DRTable, error) {
	c, t := d.begin("create dr table"), &DRTable{domain: d, level: level}
	return create(c, t, &t.node, "dr table", func() (uintptr, error) {
		if level < 0 || level > math.MaxInt32 {
			return 0, &ibv.ArgError{Arg: "level", Got: fmt.Sprint(level), Want: "0, the root, or more"}
		}
		h, err := c.lib.DRTableCreate(d.handle, uint32(level))
		return h, explainDR(err, d.dev, aboveRoot)
	})
}

// Level returns the table's level, 0 for the root.
func (t *DRTable) Level() int { return t.level }

// Close destroys the table.
//
// C: mlx5dv_dr_table_destroy(3).
func (t *DRTable) Close() error { return t.destroy(t.lib.DRTableDestroy) }

// Dump writes the table and what is in it.
//
// C: mlx5dv_dump_dr_table(3), of libmlx5 v28.
func (t *DRTable) Dump(w io.Writer) error {
	return t.dump(w, func() ([]byte, error) { return t.lib.DumpDRTable(t.handle) })
}

// DRMatcher has the fields of frames that its rules compare.
//
// It belongs to its DRTable. Close fails while it has rules.
//
// C: struct mlx5dv_dr_matcher.
type DRMatcher struct {
	node
	table *DRTable
	mask  []byte
}

// CreateMatcher makes a matcher; those of a lower priority are looked at first. mask may be nil, for rules
// about every frame.
//
// C: mlx5dv_dr_matcher_create(3).
func (t *DRTable) CreateMatcher(priority int, mask *Match) (*DRMatcher, error) {
	if mask == nil {
		mask = new(Match)
	}
	c, m := t.begin("create dr matcher"), &DRMatcher{table: t}
	return create(c, m, &m.node, "dr matcher", func() (h uintptr, err error) {
		m.mask, err = mask.encode("mask")
		if err := errors.Join(err, checkPriority(priority)); err != nil {
			return 0, err
		}
		h, err = c.lib.DRMatcherCreate(t.handle, uint16(priority), parts(m.mask), m.mask)
		return h, explainSteering(err, t.dev, "a matcher with these fields", priority)
	})
}

// DRLayout is how a matcher lays out its rules.
//
// C: struct mlx5dv_dr_matcher_layout.
type DRLayout struct {
	Resizable bool // it grows and shrinks with its rules
	LogRules  int  // base-2 logarithm of the rules to expect; 0 means not given
}

// SetLayout chooses a layout, in a table above level 0.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_matcher_set_layout(3), of libmlx5 v37.
func (m *DRMatcher) SetLayout(l DRLayout) error {
	const op = "set dr matcher layout"
	if l.LogRules < 0 || l.LogRules > 31 {
		return opError(op, m.name, &ibv.ArgError{Arg: "LogRules", Got: fmt.Sprint(l.LogRules), Want: "0 to 31"})
	}
	c := &abi.MLX5DVDRMatcherLayout{LogNumOfRulesHint: uint32(l.LogRules)}
	if l.Resizable {
		c.Flags |= abi.MLX5DV_DR_MATCHER_LAYOUT_RESIZABLE
	}
	if l.LogRules > 0 {
		c.Flags |= abi.MLX5DV_DR_MATCHER_LAYOUT_NUM_RULE
	}
	return m.do(op, func() error {
		return explainDR(m.lib.DRMatcherSetLayout(m.handle, c), m.dev, "a layout of this matcher")
	})
}

// Close destroys the matcher.
//
// C: mlx5dv_dr_matcher_destroy(3).
func (m *DRMatcher) Close() error { return m.destroy(m.lib.DRMatcherDestroy) }

// Dump writes the matcher and its rules.
//
// C: mlx5dv_dump_dr_matcher(3), of libmlx5 v28.
func (m *DRMatcher) Dump(w io.Writer) error {
	return m.dump(w, func() ([]byte, error) { return m.lib.DumpDRMatcher(m.handle) })
}
