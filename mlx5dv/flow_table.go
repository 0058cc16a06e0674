package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// FlowTable is a kind of table of steering rules: which frames come to it.
//
// C: enum mlx5dv_flow_table_type.
type FlowTable uint32

// The tables.
const (
	TableNICRx FlowTable = abi.MLX5DV_FLOW_TABLE_TYPE_NIC_RX // what a port receives
	TableNICTx FlowTable = abi.MLX5DV_FLOW_TABLE_TYPE_NIC_TX // what it sends
)

// The tables of what the e-switch forwards, and of RoCE packets.
//
// Experimental: no device has run this. See docs/stability.md.
const (
	TableFDB             FlowTable = abi.MLX5DV_FLOW_TABLE_TYPE_FDB
	TableRDMARx          FlowTable = abi.MLX5DV_FLOW_TABLE_TYPE_RDMA_RX
	TableRDMATx          FlowTable = abi.MLX5DV_FLOW_TABLE_TYPE_RDMA_TX
	TableRDMATransportRx FlowTable = abi.MLX5DV_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX
	TableRDMATransportTx FlowTable = abi.MLX5DV_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX
)

var flowTableNames = []string{"NICRx", "NICTx", "FDB", "RDMARx", "RDMATx", "RDMATransportRx", "RDMATransportTx"}

// String returns the name, as in "NICRx".
func (t FlowTable) String() string { return enumName("FlowTable", uint32(t), flowTableNames) }

// enumName returns the name of a value, as in "NICRx", or "FlowTable(17)" if it has none.
func enumName(typ string, v uint32, names []string) string {
	if v < uint32(len(names)) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", typ, v)
}
