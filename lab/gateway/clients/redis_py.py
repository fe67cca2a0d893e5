"""Tests a gateway with redis-py. Deletes all keys. pip install redis; python3 redis_py.py PORT"""

import sys

import redis


def expect_error(kind, action):
    try:
        action()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def strings(client):
    assert client.set("a", "1", ex=100) and client.ttl("a") in (99, 100)
    assert client.set("a", "2", nx=True) is None
    assert client.getex("a", px=50000) == "1"
    assert client.incrbyfloat("f", 1.5) == 1.5
    assert client.append("s", "xy") == 2 and client.getrange("s", 0, 0) == "x"
    assert client.setbit("b", 7, 1) == 0 and client.bitcount("b") == 1
    assert client.mset({"m1": 1, "m2": 2}) and client.mget("m1", "m2", "no") == ["1", "2", None]
    assert sorted(client.scan_iter(match="m*")) == ["m1", "m2"]
    assert client.expire("a", 10, nx=True) is False and client.persist("a")
    assert client.rename("a", "z") and client.copy("z", "y")
    assert client.object("encoding", "y") == "int"
    expect_error(redis.ResponseError, lambda: client.hset("h", "f", "v"))


def transactions(client):
    client.set("a", 1)
    with client.pipeline() as pipe:
        pipe.watch("a")
        pipe.multi()
        pipe.incr("a")
        pipe.get("a")
        assert pipe.execute() == [2, "2"]
    with client.pipeline() as pipe:
        pipe.watch("a")
        client.set("a", 9)
        pipe.multi()
        pipe.incr("a")
        expect_error(redis.WatchError, pipe.execute)


def messages(client):
    listener = client.pubsub()
    listener.subscribe("c")
    listener.get_message(timeout=1)
    client.publish("c", "hi")
    assert listener.get_message(timeout=2)["data"] == "hi"
    listener.close()


def server(client):
    client.client_setname("me")
    assert client.client_getname() == "me"
    assert any(each["name"] == "me" for each in client.client_list())
    assert client.config_get("maxclients")["maxclients"] == "1024"
    assert client.info()["redis_version"].startswith("7")


for protocol in (2, 3):
    connection = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    connection.flushdb()
    for part in (strings, transactions, messages, server):
        part(connection)
    print(f"redis-py {redis.__version__}, RESP{protocol}: ok")
