package mlx5dv

import (
	"errors"
	"io"

	"github.com/pureverbs/pureverbs/ibv"
)

// DRRule is a rule of direct rules.
//
// It belongs to its DRMatcher and its actions.
//
// C: struct mlx5dv_dr_rule.
type DRRule struct{ node }

// maxDRActions bounds the actions of a rule.
const maxDRActions = 16

// CreateRule makes a rule. value may be nil for a matcher that compares nothing; it has only bits of the
// matcher's mask. The actions are of the same DRDomain.
//
// C: mlx5dv_dr_rule_create(3).
func (m *DRMatcher) CreateRule(value *Match, actions ...*DRAction) (*DRRule, error) {
	c, r := m.begin("create dr rule"), new(DRRule)
	return create(c, r, &r.node, "dr rule", func() (uintptr, error) {
		v, err := value.valueFor(m.mask)
		errs := []error{err}
		if len(actions) > maxDRActions {
			errs = append(errs, &ibv.LimitError{What: "dr actions", Asked: uint64(len(actions)), Limit: maxDRActions,
				Where: "one rule"})
		}
		list, err := c.actions("actions", actions, m.table.domain)
		if err := errors.Join(append(errs, err)...); err != nil {
			return 0, err
		}
		h, err := c.lib.DRRuleCreate(m.handle, v, list)
		return h, explainDR(err, m.dev, "these actions in this table")
	})
}

// Close removes the rule.
//
// C: mlx5dv_dr_rule_destroy(3).
func (r *DRRule) Close() error { return r.destroy(r.lib.DRRuleDestroy) }

// Dump writes the rule.
//
// C: mlx5dv_dump_dr_rule(3), of libmlx5 v28.
func (r *DRRule) Dump(w io.Writer) error {
	return r.dump(w, func() ([]byte, error) { return r.lib.DumpDRRule(r.handle) })
}
