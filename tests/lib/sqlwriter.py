#!/usr/bin/env python3
"""Writers of one sqlite database that disturb each other as much as locks allow.

  sqlwriter.py init  DB MODE
  sqlwriter.py write DB MODE WHO COUNT WRITERS   waits until all WRITERS are there, then COUNT transactions
  sqlwriter.py check DB WHO=COUNT...             what must be in it afterwards

A transaction reads a total that all share, adds one, and writes a row; whoever works on stale pages, or without
a lock that holds, loses a row or a count or breaks the file.
"""
import glob
import hashlib
import random
import sqlite3
import sys
import time

PATIENCE = 100  # seconds for a lock


def connect(db, mode):
    con = sqlite3.connect(db, timeout=PATIENCE, isolation_level=None)
    got = con.execute(f"pragma journal_mode={mode}").fetchone()[0]
    assert got == mode, f"journal_mode is {got}, not {mode}"
    return con


def body(who, seq, version):
    """Of many lengths, so that rows overflow into pages of their own, and give them back."""
    text = hashlib.sha256(f"{who}.{seq}.{version}".encode()).digest()
    return text * (1 + text[0] * (4 if text[1] < 32 else 1) // 4)


def init(db, mode):
    con = connect(db, mode)
    con.executescript("""
        create table total (n integer);
        insert into total values (0);
        create table row (id integer primary key autoincrement, who text, seq integer, body blob);
        create index byseq on row (who, seq);""")
    con.close()


def rendezvous(db, who, writers):
    open(f"{db}.ready.{who}", "w").close()
    end = time.monotonic() + PATIENCE
    while len(glob.glob(glob.escape(db) + ".ready.*")) < writers:
        if time.monotonic() > end:
            sys.exit("the other writers did not come")
        time.sleep(0.01)


def transaction(con, who, seq):
    con.execute("begin immediate")
    n = con.execute("select n from total").fetchone()[0]
    con.execute("insert into row (who, seq, body) values (?, ?, ?)", (who, seq, body(who, seq, 0)))
    if seq % 3 == 2:
        con.execute("update row set body = ? where who = ? and seq = ?", (body(who, seq - 2, 1), who, seq - 2))
    con.execute("update total set n = ?", (n + 1,))
    con.execute("commit")


def think_again(con, who):
    con.execute("begin immediate")
    con.execute("update total set n = n + 1000")
    con.execute("insert into row (who, seq, body) values (?, -1, zeroblob(20000))", (who,))
    con.execute("rollback")


def look(con):
    """One moment: the shared total is the number of rows."""
    con.execute("begin")
    n = con.execute("select n from total").fetchone()[0]
    rows = con.execute("select count(*) from row").fetchone()[0]
    con.execute("commit")
    assert n == rows, f"a reader saw the total {n} with {rows} rows"


def write(db, mode, who, count, writers):
    rng = random.Random(who)
    con = connect(db, mode)
    rendezvous(db, who, writers)
    for seq in range(count):
        transaction(con, who, seq)
        if seq % 10 == 4:
            look(con)
        if seq % 10 == 9:
            think_again(con, who)
        if seq % 50 == 49:  # closing any descriptor of a file drops its POSIX locks
            con.close()
            con = connect(db, mode)
        time.sleep(rng.random() * 0.04)  # in which the others get the lock: sqlite looks for it every 0.1 s
    con.close()


def check(db, expected):
    con = sqlite3.connect(db, timeout=PATIENCE)
    said = [r[0] for r in con.execute("pragma integrity_check")]
    assert said == ["ok"], "integrity_check: " + "; ".join(said[:20])
    rows = con.execute("select who, seq, body from row order by id").fetchall()
    want = {(who, seq) for who, count in expected.items() for seq in range(count)}
    got = [(who, seq) for who, seq, _ in rows]
    assert len(got) == len(set(got)), "rows are there twice"
    assert set(got) == want, f"{len(want - set(got))} committed rows are missing, {len(set(got) - want)} are too many"
    for who, seq, blob in rows:
        version = 1 if seq % 3 == 0 and seq + 2 < expected[who] else 0
        assert blob == body(who, seq, version), f"row {seq} of {who} has other bytes"
    n = con.execute("select n from total").fetchone()[0]
    assert n == len(want), f"the total is {n} after {len(want)} transactions"
    turns = sum(a[0] != b[0] for a, b in zip(got, got[1:]))
    print(f"{len(rows)} rows, {turns} changes of the writer")
    if len(expected) > 1 and turns < 5:
        sys.exit("the writers did not write at once")


if sys.argv[1] == "init":
    init(*sys.argv[2:4])
elif sys.argv[1] == "write":
    write(*sys.argv[2:5], int(sys.argv[5]), int(sys.argv[6]))
elif sys.argv[1] == "check":
    check(sys.argv[2], {w: int(c) for w, c in (a.split("=") for a in sys.argv[3:])})
else:
    sys.exit(__doc__)
