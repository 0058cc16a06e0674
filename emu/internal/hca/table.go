//go:build linux

package hca

// Table is a kind of table of rules, with the kernel's numbers.
type Table uint64

// The tables. Only the first two are there: RoCE is not steered, and there is no e-switch.
const (
	TableRx Table = iota
	TableTx
	TableFDB
	TableRDMARx
	TableRDMATx
	lastTable = TableRDMATx
)

// Priorities of the tables, as mlx5_ib arranges them: two of the device for each of the program's, because a rule that
// does not trap goes before those that do; then rules for multicast alone; then the defaults.
const (
	maxFlowPriority  = 15
	mcastPriority    = 2 * (maxFlowPriority + 1)
	defaultsPriority = mcastPriority + 1
)
