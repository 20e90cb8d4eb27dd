"""Writes pydantic-schemas.json: the JSON Schemas of pydantic's field types (`pip install "pydantic[email]"`)."""

import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import typing
import uuid

import pydantic
from pydantic import BaseModel, ConfigDict, Field


class Kind(enum.Enum):
    cat = "cat"
    dog = "dog"


class Address(BaseModel):
    street: str = Field(min_length=1, max_length=40)
    zip: str = Field(pattern=r"^\d{5}$")


class Node(BaseModel):
    name: str = Field(max_length=8)
    children: list["Node"] = Field(default=[], max_length=2)


class Cat(BaseModel):
    kind: typing.Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: typing.Literal["dog"]
    good: bool = True


class Ids(BaseModel):
    model_config = ConfigDict(extra="forbid")
    order: int = Field(ge=10**18, lt=10**19)


class Texts(BaseModel):
    code: str = Field(pattern=r"^[A-Z]{2}-\d+$", max_length=8)
    slug: str = Field(pattern=r"^[\w\-]+$", min_length=3, max_length=12)
    somewhere: str = Field(pattern="[0-9]{2}")
    password: str = Field(min_length=4, max_length=6)


class Optionals(BaseModel):
    a: int | None = None
    b: str = "x"
    c: list[int] = Field(default_factory=list, max_length=3)
    d: bool
    e: Address | None = None


class Unenforced(BaseModel):
    unique: set[int] = Field(max_length=3)
    even: int = Field(multiple_of=2, ge=0, le=100)
    secret: pydantic.SecretStr = Field(max_length=5)
    file: pathlib.Path
    names: dict[typing.Annotated[str, Field(pattern="^[a-z]+$")], int]


MODELS = {
    "integer": pydantic.create_model("M", x=(int, ...)),
    "bounds": pydantic.create_model(
        "M",
        a=(pydantic.PositiveInt, ...),
        b=(pydantic.NonNegativeInt, ...),
        c=(pydantic.NegativeInt, ...),
        d=(typing.Annotated[float, Field(ge=0, le=1)], ...),
        e=(typing.Annotated[float, Field(gt=-0.25, lt=12.5)], ...),
        f=(typing.Annotated[int, Field(ge=-7, le=1234)], ...),
    ),
    "decimal": pydantic.create_model("M", x=(decimal.Decimal, ...)),
    "days": pydantic.create_model(
        "M",
        day=(datetime.date, ...),
        at=(datetime.datetime, ...),
        time=(datetime.time, ...),
        took=(datetime.timedelta, ...),
    ),
    "uuid": pydantic.create_model("M", id=(uuid.UUID, ...)),
    "email": pydantic.create_model("M", mail=(pydantic.EmailStr, ...)),
    "url": pydantic.create_model("M", url=(pydantic.AnyUrl, ...)),
    "address": pydantic.create_model("M", ip=(ipaddress.IPv4Address, ...)),
    "tuple": pydantic.create_model("M", pair=(tuple[int, str], ...)),
    "dict": pydantic.create_model("M", counts=(dict[str, int], Field(max_length=3))),
    "enum": pydantic.create_model("M", kind=(Kind, ...), size=(typing.Literal[1, 2, "big"], ...)),
    "union": pydantic.create_model("M", pet=(Cat | Dog, Field(discriminator="kind"))),
    "nested": pydantic.create_model("M", home=(Address, Field(description="where")), work=(Address | None, None)),
    "recursive": Node,
    "ids": Ids,
    "texts": Texts,
    "optionals": Optionals,
    "unenforced": Unenforced,
}

if __name__ == "__main__":
    schemas = {name: model.model_json_schema() for name, model in MODELS.items()}
    file = pathlib.Path(__file__).with_name("pydantic-schemas.json")
    file.write_text(json.dumps({"pydantic": pydantic.VERSION, "schemas": schemas}, indent=2) + "\n")
