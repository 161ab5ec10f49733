/*
 * The agreement of a job's members on a view: src/control/view.h. Every message is modelled, on
 * connections that keep their order. A member may die between any two of them.
 *
 *   SUSPECT   to all         ranks that are suspected; merged, and their connections are cut
 *   STATE     to the lowest  a promise to accept no lower ballot, and the accepted content
 *   PROPOSAL  to all         when the STATEs of all are there, and they are a quorum
 *   ACCEPT    to the lowest
 *   INSTALL   to all         when all have accepted; also before the first message of a view
 *   NOTICE    to a suspect   before its connection is cut; the reader holds its sender back
 *
 * There is one run. It has its data on a member when all members of the view have installed it, and
 * completes when all have its data. With JOIN rank 3 is a newcomer, for which the members call
 * admit first. Without JOIN there are 4 members. Deaths and false suspicions (SILENT) are limited.
 * A false suspicion of a lower rank, and one after a notice, waits until nothing else happens.
 *
 * Holds: living members never install different views of one number; a run ends with the same
 * contributions everywhere, also at the dead, and is never completed without data; in the end no
 * member waits, goes on with a dead one, or lives outside of the view of another.
 * Planted:
 *   EARLY: INSTALL is sent before all have accepted.
 *   FORGET: a coordinator ignores accepted contents.
 *   SUBTRACT: deaths are subtracted from the half, and a proof counts after a suspicion.
 *   LATE: a proof counts after a suspicion.
 *   MOST: base is the highest count, not the lowest.
 *   NO_SETTLING: a run completes as soon as its data is there.
 *   NO_NOTICE: connections are cut without a notice.
 *   NO_CATCH_UP: a member sends INSTALL only as the coordinator.
 *   FORGIVE: INSTALL ends all suspicions.
 */
#ifdef JOIN
#define M 3
#else
#define M 4
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef SILENT
#define SILENT 0
#endif
#define N 4
#define NEW 3
#define VIEWS 6

#define bit(i) (1 << (i))
#define count(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1) + (((m) >> 3) & 1))
#define lowest(m) (((m) & 1) -> 0 : (((m) & 2) -> 1 : (((m) & 4) -> 2 : 3)))

/* A content: members, base, and the fate of the newcomer. */
#define BASE 16
#define ADMITTED 32
#define CANCELLED 64
#define SET 128
#define members_of(x) ((x) & 15)
/* A ballot: attempt and coordinator; 0: none. */
#define ballot_of(att, co) ((att) * 4 + (co) + 1)
/* The last field of a STATE. */
#define HAS_DATA 1
#define ADMITS 2
#define GONE 4

mtype = { SUSPECT, STATE, PROPOSAL, ACCEPT, INSTALL, NOTICE, END };
#define of(from, at) ((from) * 3 + ((at) > (from) -> (at) - 1 : (at)))
/* Type, view and flags, suspects and proofs, content, its ballot. */
chan to[12] = [12] of { mtype, byte, byte, byte, byte };

bool dead[N], stopped[N];
byte view[N], members[N], suspects[N], proofs[N], held[N], open[N];
byte promised[N], accepted_ballot[N], accepted[N], relayed[N];
byte proposed[N], got[N], states[N], best_ballot[N], best[N], base[N], admits_of[N], gone_of[N];
bool admits[N], admit_done[N], newcomer_gone[N], has_data[N];
byte installed[24];      /* member * VIEWS + view: the content */
byte data_in[N];         /* mask of the views in which the member had the data */
byte result;             /* contributors of the run, where it has completed */
byte result_at[N];
byte deaths = DEATHS, silences = SILENT;

hidden byte sends, i, k, add, addc, fresh, before, t1, t2, P, c, m_view, m_s, m_x, m_a, m_f, q;
hidden byte want_suspect, want_hold, want_take, want_install, want_spread, want_state, want_try;
hidden byte want_check, want_send, is_first, holds, ending; /* ending: 1: dies, 2: stops */
hidden mtype m_type;

#define lives(p) (!dead[p] && !stopped[p])

inline drop(from, at) {
  do
  :: nempty(to[of(from, at)]) -> to[of(from, at)] ? m_type, _, _, _, _
  :: empty(to[of(from, at)]) -> break
  od
}

inline push(p, other, t, v, s, x, a, f) {
  if
  :: lives(other) && (open[other] & bit(p)) ->
    assert(nfull(to[of(p, other)]));
    to[of(p, other)] ! t, (v) | ((f) << 4), s, x, a
  :: else
  fi
}

/* The sender may die before each message of a step but the first. */
inline send(p, other, t, v, s, x, a, f) {
  if
  :: !ending && (open[p] & bit(other)) ->
    if
    :: deaths > 0 && sends > 0 -> ending = 1
    :: true -> sends++; push(p, other, t, v, s, x, a, f)
    fi
  :: else
  fi
}

inline forget_states(p) {
  proposed[p] = 0; got[p] = 0; states[p] = 0; best_ballot[p] = 0; best[p] = 0; base[p] = 0;
  admits_of[p] = 0; gone_of[p] = 0
}

/* The process ends: its connections end after everything that was sent on them. */
inline close_all(p) {
  if
  :: ending == 1 -> deaths--; dead[p] = true
  :: else -> stopped[p] = true
  fi;
  k = 0;
  do
  :: k < N ->
    if
    :: k != p && (open[p] & bit(k)) -> push(p, k, END, 0, 0, 0, 0, 0); drop(k, p)
    :: else
    fi;
    k++
  :: else -> break
  od;
  open[p] = 0; suspects[p] = 0; proofs[p] = 0; held[p] = 0; promised[p] = 0;
  accepted_ballot[p] = 0; accepted[p] = 0; relayed[p] = 0; newcomer_gone[p] = false;
  admits[p] = false; forget_states(p)
}

/* holds: whether P may go on without the rest of the view, of which `with` have ended. */
inline quorum(p, with) {
  t1 = members[p] & ~P; t2 = members[p];
#ifdef SUBTRACT
  t2 = t2 & ~(t1 & (with));
#endif
  holds = ((t1 & ~(with)) == 0) || 2 * count(P) > count(t2) ||
          (2 * count(P) == count(t2) && (P & bit(lowest(t2))))
}

inline catch_up(p, other) {
#ifdef NO_CATCH_UP
  skip
#else
  if
  :: !ending && view[p] > 1 && !(relayed[p] & bit(other)) ->
    relayed[p] = relayed[p] | bit(other);
    send(p, other, INSTALL, view[p], 0, installed[(p) * VIEWS + view[p]], 0, 0)
  :: else
  fi
#endif
}

/* INSTALL of a coordinator, notices and ends to `fresh`, SUSPECT or PROPOSAL: to all of `mask`. */
inline send_all(p, mask, kind) {
  i = 0;
  do
  :: i < N ->
    if
    :: i != p && ((mask) & bit(i)) && !ending ->
      if
      :: kind == NOTICE ->
#ifndef NO_NOTICE
        send(p, i, NOTICE, view[p], 0, 0, 0, 0);
#endif
        if
        :: !ending && (open[p] & bit(i)) ->
          push(p, i, END, 0, 0, 0, 0, 0); open[p] = open[p] & ~bit(i); drop(i, p)
        :: else
        fi
      :: kind == INSTALL ->
        relayed[p] = relayed[p] | bit(i);
        send(p, i, INSTALL, view[p], 0, installed[(p) * VIEWS + view[p]], 0, 0)
      :: else ->
        catch_up(p, i);
        if
        :: kind == SUSPECT -> send(p, i, SUSPECT, view[p], suspects[p] | (proofs[p] << 4), 0, 0, 0)
        :: else -> send(p, i, PROPOSAL, view[p], 0, accepted[p], proposed[p], 0)
        fi
      fi
    :: else
    fi;
    i++
  :: else -> break
  od
}

/* add: ranks, addc: those whose end is proved */
inline suspect(p) {
  add = add & members[p] & ~bit(p);
  before = proofs[p];
  fresh = add & ~suspects[p];
#if defined(LATE) || defined(SUBTRACT)
  proofs[p] = proofs[p] | (addc & add);
#else
  addc = addc & add & ~held[p];
  proofs[p] = (proofs[p] | (addc & fresh)) & ~(add & ~addc & suspects[p]);
#endif
  suspects[p] = suspects[p] | add;
  want_spread = (fresh != 0 || before != proofs[p]);
  if
  :: fresh -> forget_states(p)
  :: else
  fi
}

inline hold(p) {
  held[p] = held[p] | bit(q);
  P = members[p] & ~suspects[p] & ~held[p];
  quorum(p, (proofs[p] & ~held[p]));
  if
  :: !(suspects[p] & bit(q)) && !holds -> ending = 2
  :: else
  fi
}

/* A STATE of member q, or of this member. */
inline take_state(p) {
#ifdef MOST
  base[p] = base[p] | (m_f & HAS_DATA);
#else
  base[p] = (states[p] == 0 -> (m_f & HAS_DATA) : (base[p] & m_f & HAS_DATA));
#endif
  states[p] = states[p] | bit(q);
  admits_of[p] = admits_of[p] | ((m_f & ADMITS) -> bit(q) : 0);
  gone_of[p] = gone_of[p] | (m_f & GONE);
  if
  :: m_a > best_ballot[p] -> best_ballot[p] = m_a; best[p] = m_x
  :: else
  fi;
  want_try = 1
}

inline send_state(p) {
  c = lowest((members[p] & ~suspects[p]));
  promised[p] = ballot_of(count(suspects[p]), c);
  if
  :: c != p -> catch_up(p, c)
  :: else
  fi;
  m_f = (has_data[p] -> HAS_DATA : 0) | ((admits[p] && !admit_done[p]) -> ADMITS : 0) |
        (newcomer_gone[p] -> GONE : 0);
  m_a = accepted_ballot[p]; m_x = accepted[p];
  if
  :: c != p ->
    send(p, c, STATE, view[p], suspects[p] | (proofs[p] << 4), m_x, m_a, m_f)
  :: else -> q = p; want_take = !(states[p] & bit(p)); want_try = 1
  fi
}

inline try(p) {
  P = members[p] & ~suspects[p];
  if
  :: lowest(P) == p && !(P & ~states[p]) && (suspects[p] || !(P & ~admits_of[p])) ->
    quorum(p, proofs[p]);
    if
    :: suspects[p] && !holds -> ending = 2
    :: else ->
      if
      :: !proposed[p] ->
#ifdef FORGET
        accepted[p] = 0; best_ballot[p] = 0; accepted_ballot[p] = 0;
#endif
        if
        :: best_ballot[p] > accepted_ballot[p] -> accepted[p] = best[p]
        :: else
        fi;
        if
        :: accepted[p] -> skip
        :: !accepted[p] && suspects[p] -> accepted[p] = SET | P | (base[p] -> BASE : 0)
        :: !accepted[p] && !suspects[p] ->
          accepted[p] = SET | members[p] | (gone_of[p] -> CANCELLED : (bit(NEW) | ADMITTED))
        fi;
        accepted_ballot[p] = ballot_of(count(suspects[p]), p);
        proposed[p] = accepted_ballot[p];
        got[p] = bit(p);
        want_send = PROPOSAL
      :: else
      fi;
      want_check = 1
    fi
  :: else
  fi
}

inline check_accepted(p) {
  P = members[p] & ~suspects[p];
#ifdef EARLY
  if
  :: proposed[p] && 2 * count((got[p])) >= count(P) ->
#else
  if
  :: proposed[p] && !(P & ~got[p]) ->
#endif
    want_install = 1; is_first = 1; m_x = accepted[p]; m_view = view[p] + 1
  :: else
  fi
}

/* m_x, m_view: the view. is_first: this member is the coordinator. */
inline install(p) {
  assert(m_view < VIEWS);
  assert(members_of(m_x) & bit(p));
  i = 0;
  do
  :: i < N ->
    assert(!lives(i) || !installed[i * VIEWS + m_view] || installed[i * VIEWS + m_view] == m_x);
    i++
  :: else -> break
  od;
  if
  :: view[p] && !(m_x & (ADMITTED | CANCELLED)) ->
    assert(!result_at[p] || (m_x & BASE)); /* no completed run is executed again */
    assert(has_data[p] || !(m_x & BASE));  /* none completes without its data */
    if
    :: (m_x & BASE) && !result_at[p] ->
      assert(result == 0 || result == members[p]); result = members[p]; result_at[p] = result
    :: else
    fi;
    has_data[p] = (m_x & BASE) != 0
  :: else -> admit_done[p] = true; admits[p] = false; newcomer_gone[p] = false
  fi;
  view[p] = m_view; members[p] = members_of(m_x);
  installed[(p) * VIEWS + m_view] = m_x;
  data_in[p] = data_in[p] | (has_data[p] -> bit(m_view) : 0);
  suspects[p] = suspects[p] & members[p]; held[p] = held[p] & members[p];
#ifdef FORGIVE
  suspects[p] = 0;
#endif
  proofs[p] = proofs[p] & suspects[p];
  accepted[p] = 0; accepted_ballot[p] = 0; promised[p] = 0;
  relayed[p] = (is_first -> 0 : bit(q));
  forget_states(p);
  want_send = (is_first -> INSTALL : 0);
  is_first = 0;
  want_spread = suspects[p] != 0;
  want_state = (suspects[p] == 0 && admits[p]);
#ifndef FORGIVE
  add = members[p] & ~suspects[p] & ~open[p] & ~held[p] & ~bit(p); addc = 0;
  want_suspect = add != 0
#endif
}

/* Everything that follows from an event, in the same step. */
inline finish(p) {
  do
  :: ending -> close_all(p); break
  :: else ->
    if
    :: want_send == INSTALL -> want_send = 0; send_all(p, members[p], INSTALL)
    :: else ->
      if
      :: want_suspect -> want_suspect = 0; suspect(p)
      :: !want_suspect && want_hold -> want_hold = 0; hold(p)
      :: !want_suspect && !want_hold && want_spread ->
        want_spread = 0; want_state = 1;
        send_all(p, fresh, NOTICE); fresh = 0;
        send_all(p, (members[p] & ~suspects[p]), SUSPECT)
      :: !want_suspect && !want_hold && !want_spread && want_take ->
        want_take = 0;
        if
        :: q == p || (m_view == view[p] && (m_s & 15) == suspects[p] && !(states[p] & bit(q))) ->
          take_state(p)
        :: else
        fi
      :: !want_suspect && !want_hold && !want_spread && !want_take ->
        if
        :: want_state -> want_state = 0; send_state(p)
        :: !want_state && want_install -> want_install = 0; install(p)
        :: !want_state && !want_install && want_try -> want_try = 0; try(p)
        :: !want_state && !want_install && !want_try && want_send == PROPOSAL ->
          want_send = 0; send_all(p, (members[p] & ~suspects[p]), PROPOSAL)
        :: !want_state && !want_install && !want_try && !want_send && want_check ->
          want_check = 0; check_accepted(p)
        :: else -> break
        fi
      fi
    fi
  od;
  clear()
}
inline clear() {
  sends = 0; i = 0; k = 0; add = 0; addc = 0; fresh = 0; before = 0; t1 = 0; t2 = 0; P = 0; c = 0;
  m_view = 0; m_s = 0; m_x = 0; m_a = 0; m_f = 0; q = 0; is_first = 0; ending = 0;
  want_suspect = 0; want_hold = 0; want_take = 0; want_install = 0; want_spread = 0;
  want_state = 0; want_try = 0; want_check = 0; want_send = 0
}

inline take(p) {
  if
  :: m_type == END || m_type == NOTICE ->
    open[p] = open[p] & ~bit(q);
    k = (m_type == END && dead[q]); /* a proof */
    holds = (m_type == NOTICE || q < p);
    drop(q, p);
    if
    :: view[p] == 0 -> ending = (open[p] == 0 -> 2 : 0)
    :: view[p] && !(members[p] & bit(q)) -> newcomer_gone[p] = !admit_done[p]
    :: view[p] && (members[p] & bit(q)) ->
      want_hold = holds && !k;
      want_suspect = !want_hold;
      add = bit(q); addc = (k -> bit(q) : 0)
    fi
  :: m_type == INSTALL ->
    if
    :: view[p] && m_view <= view[p] ->
      assert(m_view < view[p] || installed[(p) * VIEWS + m_view] == m_x);
      relayed[p] = relayed[p] | (m_view == view[p] -> bit(q) : 0)
    :: else -> assert(!view[p] || m_view == view[p] + 1); want_install = 1
    fi
  :: m_type == SUSPECT || m_type == STATE ->
    assert(m_view <= view[p]);
    if
    :: m_view < view[p] -> catch_up(p, q)
    :: else
    fi;
    add = m_s & 15; addc = m_s >> 4; want_suspect = 1; want_take = (m_type == STATE)
  :: m_type == PROPOSAL ->
    assert(m_view <= view[p]);
    if
    :: m_view == view[p] && m_a == promised[p] ->
      accepted_ballot[p] = m_a; accepted[p] = m_x;
      send(p, q, ACCEPT, view[p], 0, 0, m_a, 0)
    :: else
    fi
  :: m_type == ACCEPT ->
    if
    :: m_view == view[p] && m_a == proposed[p] && m_a -> got[p] = got[p] | bit(q); want_check = 1
    :: else
    fi
  fi
}

#define member_(p) (lives(p) && view[p])
#define may_run(p) (member_(p) && !suspects[p] && !result_at[p] && (M == N || admit_done[p]))
#define same_view(p, o) (!(members[p] & bit(o)) ||                                                \
                         installed[(o) * VIEWS + view[p]] == installed[(p) * VIEWS + view[p]])
#define has_in(p, o) (!(members[p] & bit(o)) || (data_in[o] & bit(view[p])))
#define waits(p) (member_(p) && (held[p] & members[p] & ~suspects[p]))
#ifdef NO_SETTLING
#define all_have(p) 1
#else
#define all_have(p) (has_in(p, 0) && has_in(p, 1) && has_in(p, 2) && has_in(p, 3))
#endif

proctype member(byte p) {
end:
  do
  :: atomic {
      if
      :: lives(p) && p != 0 && nempty(to[of(0, p)]) ->
        to[of(0, p)] ? m_type, m_view, m_s, m_x, m_a; q = 0
      :: lives(p) && p != 1 && nempty(to[of(1, p)]) ->
        to[of(1, p)] ? m_type, m_view, m_s, m_x, m_a; q = 1
      :: lives(p) && p != 2 && nempty(to[of(2, p)]) ->
        to[of(2, p)] ? m_type, m_view, m_s, m_x, m_a; q = 2
      :: lives(p) && p != 3 && nempty(to[of(3, p)]) ->
        to[of(3, p)] ? m_type, m_view, m_s, m_x, m_a; q = 3
      fi;
      m_f = m_view >> 4; m_view = m_view & 15;
      take(p); finish(p) }
  :: atomic {
      if
      :: member_(p) && M < N && !admits[p] && !admit_done[p] ->
        admits[p] = true; want_state = suspects[p] == 0
      :: lives(p) && deaths > 0 -> ending = 1
      :: member_(p) && silences > 0 ->
        if
        :: p < 1 && (members[p] & ~suspects[p] & 2) && lives(1) -> add = 2
        :: p < 2 && (members[p] & ~suspects[p] & 4) && lives(2) -> add = 4
        :: p < 3 && (members[p] & ~suspects[p] & 8) && lives(3) -> add = 8
        :: else
        fi;
        want_suspect = add != 0; silences = silences - (add -> 1 : 0)
      :: timeout && waits(p) -> add = held[p] & members[p] & ~suspects[p]; want_suspect = 1
      fi;
      finish(p) }
  :: atomic { may_run(p) && !has_data[p] && same_view(p, 0) && same_view(p, 1) &&
      same_view(p, 2) && same_view(p, 3) ->
      has_data[p] = true; data_in[p] = data_in[p] | bit(view[p]) }
  :: atomic { may_run(p) && has_data[p] && all_have(p) ->
      assert(result == 0 || result == members[p]); result = members[p]; result_at[p] = result }
  od
}

init {
  byte a, b;
  atomic {
    do
    :: a < N ->
      open[a] = 15 & ~bit(a);
      if
      :: a < M -> view[a] = 1; members[a] = (1 << M) - 1; installed[a * VIEWS + 1] = SET
      :: else
      fi;
      a++
    :: a == N -> break
    od;
    a = 0; clear();
    run member(0); run member(1); run member(2); run member(3)
  }
  atomic { timeout && !waits(0) && !waits(1) && !waits(2) && !waits(3) ->
    do
    :: a < N ->
      if
      :: member_(a) ->
        assert(!suspects[a]); /* waits forever */
        assert(result_at[a]); /* the run never ends */
        b = 0;
        do
        :: b < N ->
          if
          :: members[a] & bit(b) -> assert(lives(b) && view[b] == view[a])
          :: else -> assert(!member_(b)) /* lives on outside */
          fi;
          b++
        :: b == N -> break
        od
      :: else
      fi;
      a++
    :: a == N -> break
    od }
}
