//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// verbs has what carries out each command, by the names of uapi.Methods and uapi.Cmds.
var verbs map[string]func(*call) unix.Errno

func init() {
	verbs = map[string]func(*call) unix.Errno{
		"get_context":         getContext,
		"query_context":       queryContext,
		"async_event_alloc":   asyncEventAlloc,
		"create_comp_channel": createCompChannel,
		"query_device":        queryDevice,
		"query_device_ex":     taking(queryDeviceEx),
		"query_port":          queryPort,
		"query_port_speed":    queryPortSpeed,
		"mlx5_query_port":     queryPortMlx5,
		"query_gid_entry":     queryGIDEntry,
		"query_gid_table":     queryGIDTable,
		"info_handles":        infoHandles,
		"alloc_pd":            allocPD,
		"dealloc_pd":          destroy(silent(hca.Destroy[*hca.PD])),
		"mlx5_query_pd":       queryPD,
		"uar_alloc":           uarAlloc,
		"uar_destroy":         destroy(silent(hca.Destroy[*hca.UAR])),
		"alloc_dmah":          allocDMAH,
		"free_dmah":           destroy(silent(hca.Destroy[*hca.DMAHandle])),
		"var_alloc":           varAlloc,
		"var_destroy":         destroy(silent(hca.Destroy[*hca.VAR])),
		"pp_alloc":            paceAlloc,
		"pp_destroy":          destroy(silent(hca.Destroy[*hca.Pace])),
		"devx_other":          devxGeneral,
		"devx_create":         devxCreate,
		"devx_destroy":        destroy(silent(hca.Destroy[*hca.DevxObject])),
		"devx_modify":         devxChange(&devxModifies),
		"devx_query":          devxChange(&devxQueries),
		"devx_query_async":    devxQueryAsync,
		"devx_async_alloc":    devxAsyncAlloc,
		"umem_reg":            umemReg,
		"umem_dereg":          destroy(silent(hca.Destroy[*hca.Umem])),
		"devx_query_uar":      devxQuery((*call).hasUAR),
		"devx_query_eqn":      devxQuery((*call).hasVector),
		"open_xrcd":           taking(openXRCD),
		"close_xrcd":          destroy(silent(hca.Destroy[*hca.XRCDRef])),
		"reg_mr":              regMR,
		"reg_dmabuf_mr":       regDmabuf,
		"reg_dm_mr":           regDM,
		"alloc_dm":            allocDM,
		"free_dm":             destroy(silent(hca.Destroy[*hca.DM])),
		"mlx5_dm_map_op":      refuse,
		"mlx5_query_dm":       queryDM,
		"rereg_mr":            taking(reregMR),
		"dereg_mr":            destroy(silent(hca.DestroyMR)),
		"query_mr":            queryMR,
		"advise_mr":           adviseMR,
		"alloc_mw":            taking(allocMW),
		"dealloc_mw":          destroy(silent(hca.DestroyMW)),
		"create_cq":           createCQ,
		"resize_cq":           taking(resizeCQ),
		"modify_cq":           taking(modifyCQ),
		"destroy_cq":          destroy(destroyCQ),
		"create_srq":          createSRQ,
		"create_xsrq":         createSRQ,
		"modify_srq":          taking(modifySRQ),
		"query_srq":           taking(querySRQ),
		"destroy_srq":         destroy(events(hca.DestroyCounted[*hca.SRQ])),
		"create_qp":           createQP,
		"open_qp":             taking(openQP),
		"query_qp":            taking(queryQP),
		"modify_qp":           modifyQP,
		"destroy_qp":          destroy(events(hca.DestroyCounted[hca.AnyQP])),
		"create_wq":           createWQ,
		"modify_wq":           taking(modifyWQ),
		"destroy_wq":          destroyWQ,
		"create_rwq_ind_tbl":  createIndTable,
		"destroy_rwq_ind_tbl": destroyIndTable,
		"create_flow":         createFlow,
		"destroy_flow":        destroyFlow,
		"matcher_create":      createMatcher,
		"matcher_destroy":     destroy(silent(hca.Destroy[*hca.Matcher])),
		"matcher_flow":        createMatcherFlow,
		"header_action":       createHeaderAction,
		"reformat_action":     createReformatAction,
		"destroy_flow_action": destroy(silent(hca.Destroy[*hca.FrameAction])),
		"anchor_create":       createAnchor,
		"anchor_destroy":      destroy(silent(hca.Destroy[*hca.Anchor])),
		"create_counters":     createCounters,
		"destroy_counters":    destroy(silent(hca.Destroy[*hca.FlowCounters])),
		"read_counters":       readCounters,
		"create_ah":           taking(createAH),
		"destroy_ah":          destroy(silent(hca.Destroy[*hca.AH])),
		"attach_mcast":        mcast((*hca.QP).Attach),
		"detach_mcast":        mcast((*hca.QP).Detach),
	}
}

func findMethod(object, id uint16) *uapi.Method {
	for i := range uapi.Methods {
		if m := &uapi.Methods[i]; m.Object == object && m.ID == id {
			return m
		}
	}
	return nil
}

func findCmd(number uint32) *uapi.Cmd {
	for i := range uapi.Cmds {
		if uapi.Cmds[i].Number == number {
			return &uapi.Cmds[i]
		}
	}
	return nil
}
