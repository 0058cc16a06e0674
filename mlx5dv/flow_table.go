package mlx5dv

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/flags"
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
func (t FlowTable) String() string { return flags.Name("FlowTable", int64(t), flowTableNames) }
